// The whole of memcachier/mc, which speaks the binary protocol only, against the server at host:port; with `sasl` before it
// as a user of that server.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/memcachier/mc/v3"
)

// A check is a sentence and what makes it true.
type check struct {
	name string
	run  func(c *mc.Client) error
}

var address = os.Args[len(os.Args)-1]

func main() {
	passed, failed := 0, 0
	for _, each := range checks {
		client := connect(4)
		err := client.Flush(0)
		if err == nil {
			err = each.run(client)
		}
		if err == nil {
			passed++
		} else {
			failed++
			fmt.Fprintf(os.Stderr, "FAILED %s: %v\n", each.name, err)
		}
		client.Quit()
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func connect(pool int) *mc.Client {
	config := mc.DefaultConfig()
	config.ConnectionTimeout = 60 * time.Second
	config.PoolSize = pool
	user, password := "", ""
	if os.Args[1] == "sasl" {
		user, password = "me", "secret"
	}
	return mc.NewMCwithConfig(address, user, password, config)
}

var checks = []check{
	{"values come back as they went", func(c *mc.Client) error {
		for _, value := range []string{"", "x", "\r\n", "\x00", strings.Repeat("v", 1000000)} {
			stored, err := c.Set("a", value, 4294967295, 0, 0)
			if err != nil {
				return err
			}
			got, flags, cas, err := c.Get("a")
			if err != nil || got != value || flags != 4294967295 || cas != stored {
				return fmt.Errorf("got %d bytes, flags %d, CAS unique %d, not %d: %v", len(got), flags, cas, stored, err)
			}
		}
		return nil
	}},
	{"a miss is a miss", func(c *mc.Client) error {
		_, _, _, err := c.Get("a")
		_, touched := c.Touch("a", 100)
		_, _, _, both := c.GAT("a", 100)
		return first(expect(err, mc.ErrNotFound), expect(touched, mc.ErrNotFound), expect(both, mc.ErrNotFound),
			expect(c.Del("a"), mc.ErrNotFound))
	}},
	{"add and replace mind what is there", func(c *mc.Client) error {
		_, e1 := c.Replace("a", "1", 0, 0, 0)
		_, e2 := c.Add("a", "1", 0, 0)
		_, e3 := c.Add("a", "2", 0, 0)
		_, e4 := c.Replace("a", "3", 0, 0, 0)
		return first(expect(e1, mc.ErrNotFound), e2, expect(e3, mc.ErrKeyExists), e4, holds(c, "a", "3"))
	}},
	{"append and prepend lengthen", func(c *mc.Client) error {
		_, e1 := c.Append("a", "x", 0)
		_, e2 := c.Prepend("a", "x", 0)
		cas, e3 := c.Set("a", "m", 0, 0, 0)
		cas, e4 := c.Append("a", "z", cas)
		_, e5 := c.Prepend("a", "a", cas)
		_, e6 := c.Append("a", "!", cas)
		return first(expect(e1, mc.ErrValueNotStored), expect(e2, mc.ErrValueNotStored), e3, e4, e5,
			expect(e6, mc.ErrKeyExists), holds(c, "a", "amz"))
	}},
	{"a CAS unique lets a change through once", func(c *mc.Client) error {
		cas, e1 := c.Set("a", "1", 0, 0, 0)
		_, e2 := c.Set("a", "2", 0, 0, cas)
		_, e3 := c.Set("a", "3", 0, 0, cas)
		_, e4 := c.Replace("a", "3", 0, 0, cas)
		e5 := holds(c, "a", "2")
		e6 := c.DelCAS("a", cas)
		_, _, now, e7 := c.Get("a")
		e8 := c.DelCAS("a", now)
		_, e9 := c.Set("a", "4", 0, 0, now)
		return first(e1, e2, expect(e3, mc.ErrKeyExists), expect(e4, mc.ErrKeyExists), e5,
			expect(e6, mc.ErrKeyExists), e7, e8, expect(e9, mc.ErrNotFound))
	}},
	{"numbers count", func(c *mc.Client) error {
		_, _, missing := c.Incr("n", 1, 0, 0xffffffff, 0)
		begun, _, e1 := c.Incr("n", 5, 10, 60, 0)
		up, cas, e2 := c.Incr("n", 5, 10, 60, 0)
		_, _, old := c.Incr("n", 5, 10, 60, cas+1)
		down, _, e3 := c.Decr("n", 6, 0, 60, cas)
		floor, _, e4 := c.Decr("n", 100, 0, 60, 0)
		if begun != 10 || up != 15 || down != 9 || floor != 0 {
			return fmt.Errorf("got %d %d %d %d: %v", begun, up, down, floor, first(e1, e2, e3, e4))
		}
		_, e5 := c.Set("w", "words", 0, 0, 0)
		_, _, wrong := c.Incr("w", 1, 0, 60, 0)
		return first(expect(missing, mc.ErrNotFound), expect(old, mc.ErrKeyExists), e5,
			expect(wrong, mc.ErrNonNumeric), holds(c, "w", "words"))
	}},
	{"touch and get-and-touch prolong", func(c *mc.Client) error {
		_, e1 := c.Set("a", "1", 7, 100, 0)
		_, e2 := c.Touch("a", 200)
		got, flags, _, e3 := c.GAT("a", 300)
		if got != "1" || flags != 7 {
			return fmt.Errorf("got %q, flags %d: %v", got, flags, e3)
		}
		// A time that is past.
		_, e4 := c.Touch("a", 3000000)
		_, _, _, gone := c.Get("a")
		return first(e1, e2, e3, e4, expect(gone, mc.ErrNotFound))
	}},
	{"delete says whether it was there", func(c *mc.Client) error {
		_, set := c.Set("a", "1", 0, 0, 0)
		return first(set, c.Del("a"), expect(c.Del("a"), mc.ErrNotFound))
	}},
	{"too large is an error and the connection lives", func(_ *mc.Client) error {
		c := connect(1)
		defer c.Quit()
		_, e1 := c.Set("a", "old", 0, 0, 0)
		_, large := c.Set("a", strings.Repeat("x", 2<<20), 0, 0, 0)
		_, e2 := c.Set("b", "1", 0, 0, 0)
		_, _, _, gone := c.Get("a")
		return first(e1, expect(large, mc.ErrValueTooLarge), e2, holds(c, "b", "1"), expect(gone, mc.ErrNotFound))
	}},
	{"keys to the limit", func(c *mc.Client) error {
		for _, key := range []string{strings.Repeat("k", 250), "with spaces", "schlüssel"} {
			if _, err := c.Set(key, "1", 0, 0, 0); err != nil {
				return err
			}
			if err := holds(c, key, "1"); err != nil {
				return err
			}
		}
		_, long := c.Set(strings.Repeat("k", 251), "1", 0, 0, 0)
		return expect(long, mc.ErrInvalidArgs)
	}},
	{"flush empties and no-op answers", func(c *mc.Client) error {
		_, set := c.Set("a", "1", 0, 0, 0)
		flushed := c.Flush(0)
		_, _, _, gone := c.Get("a")
		return first(set, flushed, expect(gone, mc.ErrNotFound), c.NoOp())
	}},
	{"the server is asked about itself", func(c *mc.Client) error {
		versions, err := c.Version()
		if err != nil || versions[address] == "" {
			return fmt.Errorf("version: %v, %v", versions, err)
		}
		statistics, err := c.Stats()
		if err != nil || statistics[address]["pid"] == "" {
			return fmt.Errorf("statistics: %v, %v", statistics, err)
		}
		settings, err := c.StatsWithKey("settings")
		if err != nil || settings[address]["maxconns"] == "" {
			return fmt.Errorf("settings: %v, %v", settings, err)
		}
		for _, kind := range []string{"items", "slabs"} {
			if _, err := c.StatsWithKey(kind); err != nil {
				return fmt.Errorf("%s: %v", kind, err)
			}
		}
		return c.StatsReset()
	}},
	{"many goroutines share a client", func(c *mc.Client) error {
		var wait sync.WaitGroup
		errs := make(chan error, 16)
		for i := 0; i < 16; i++ {
			wait.Add(1)
			go func() {
				defer wait.Done()
				for j := 0; j < 100; j++ {
					if _, _, err := c.Incr("n", 1, 1, 0, 0); err != nil {
						errs <- err
						return
					}
				}
			}()
		}
		wait.Wait()
		close(errs)
		return first(<-errs, holds(c, "n", "1600"))
	}},
}

func holds(c *mc.Client, key, value string) error {
	got, _, _, err := c.Get(key)
	if err == nil && got != value {
		err = fmt.Errorf("%s holds %q, not %q", key, got, value)
	}
	return err
}

// The library makes errors of its own for each answer: their status says what they mean.
func expect(got error, want *mc.Error) error {
	var said *mc.Error
	if errors.As(got, &said) && said.Status == want.Status {
		return nil
	}
	return fmt.Errorf("got %v, not %v", got, want)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
