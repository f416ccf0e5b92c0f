// The seccomp profile for containers with Evenkeel, as JSON: containerd's default, and the three system calls of io_uring, which that
// default refuses. Without them Evenkeel serves by epoll.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func main() {
	// A container without capabilities: the default has more for those that have some.
	container := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}
	profile := seccomp.DefaultProfile(container)
	profile.Syscalls = append(profile.Syscalls, specs.LinuxSyscall{
		Names:  []string{"io_uring_enter", "io_uring_register", "io_uring_setup"},
		Action: specs.ActAllow,
		Args:   []specs.LinuxSeccompArg{},
	})
	printer := json.NewEncoder(os.Stdout)
	printer.SetIndent("", "  ")
	if err := printer.Encode(profile); err != nil {
		log.Fatal(err)
	}
}
