// The whole of gomemcache against the server at host:port.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// A check is a sentence and what makes it true.
type check struct {
	name string
	run  func(c *memcache.Client) error
}

func main() {
	passed, failed := 0, 0
	for _, each := range checks {
		client := memcache.New(os.Args[1])
		client.Timeout = 60 * time.Second
		client.MaxIdleConns = 32
		err := client.FlushAll()
		if err == nil {
			err = each.run(client)
		}
		if err == nil {
			passed++
		} else {
			failed++
			fmt.Fprintf(os.Stderr, "FAILED %s: %v\n", each.name, err)
		}
		client.Close()
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

var checks = []check{
	{"values come back as they went", func(c *memcache.Client) error {
		for _, value := range []string{"", "x", "\r\n", "END\r\n", strings.Repeat("v", 1000000)} {
			if err := c.Set(&memcache.Item{Key: "a", Value: []byte(value), Flags: 4294967295}); err != nil {
				return err
			}
			item, err := c.Get("a")
			if err != nil {
				return err
			}
			if string(item.Value) != value || item.Flags != 4294967295 {
				return fmt.Errorf("got %d bytes, flags %d", len(item.Value), item.Flags)
			}
		}
		return nil
	}},
	{"a miss is a miss", func(c *memcache.Client) error {
		_, err := c.Get("a")
		return expect(err, memcache.ErrCacheMiss)
	}},
	{"add and replace mind what is there", func(c *memcache.Client) error {
		return first(
			expect(c.Replace(item("a", "1")), memcache.ErrNotStored),
			c.Add(item("a", "1")),
			expect(c.Add(item("a", "2")), memcache.ErrNotStored),
			c.Replace(item("a", "3")),
			holds(c, "a", "3"),
		)
	}},
	{"append and prepend lengthen", func(c *memcache.Client) error {
		return first(
			expect(c.Append(item("a", "x")), memcache.ErrNotStored),
			expect(c.Prepend(item("a", "x")), memcache.ErrNotStored),
			c.Set(item("a", "m")),
			c.Append(item("a", "z")),
			c.Prepend(item("a", "a")),
			holds(c, "a", "amz"),
		)
	}},
	{"compare and swap stores once", func(c *memcache.Client) error {
		if err := c.Set(item("a", "1")); err != nil {
			return err
		}
		mine, err := c.Get("a")
		if err != nil {
			return err
		}
		theirs, err := c.Get("a")
		if err != nil {
			return err
		}
		mine.Value, theirs.Value = []byte("2"), []byte("3")
		return first(
			c.CompareAndSwap(mine),
			expect(c.CompareAndSwap(theirs), memcache.ErrCASConflict),
			holds(c, "a", "2"),
			c.Delete("a"),
			expect(c.CompareAndSwap(theirs), memcache.ErrCacheMiss),
		)
	}},
	{"many at once", func(c *memcache.Client) error {
		var keys []string
		for i := 0; i < 500; i++ {
			key := fmt.Sprint("key", i)
			keys = append(keys, key, "missing"+key)
			if err := c.Set(item(key, key)); err != nil {
				return err
			}
		}
		items, err := c.GetMulti(keys)
		if err != nil || len(items) != 500 || string(items["key499"].Value) != "key499" {
			return fmt.Errorf("%d items, %v", len(items), err)
		}
		return nil
	}},
	{"numbers count", func(c *memcache.Client) error {
		_, missing := c.Increment("n", 1)
		set := c.Set(item("n", "10"))
		up, e1 := c.Increment("n", 5)
		down, e2 := c.Decrement("n", 6)
		floor, e3 := c.Decrement("n", 100)
		if up != 15 || down != 9 || floor != 0 {
			return fmt.Errorf("got %d %d %d", up, down, floor)
		}
		words := c.Set(item("w", "words"))
		_, wrong := c.Increment("w", 1)
		if wrong == nil || !strings.Contains(wrong.Error(), "non-numeric") {
			return fmt.Errorf("incremented words: %v", wrong)
		}
		return first(expect(missing, memcache.ErrCacheMiss), set, e1, e2, e3, words)
	}},
	{"delete says whether it was there", func(c *memcache.Client) error {
		return first(
			expect(c.Delete("a"), memcache.ErrCacheMiss),
			c.Set(item("a", "1")),
			c.Delete("a"),
			expect(c.Delete("a"), memcache.ErrCacheMiss),
		)
	}},
	{"delete all and flush all empty it", func(c *memcache.Client) error {
		set := c.Set(item("a", "1"))
		deleted := c.DeleteAll()
		_, miss := c.Get("a")
		return first(set, deleted, expect(miss, memcache.ErrCacheMiss), c.FlushAll())
	}},
	{"touch and get-and-touch prolong", func(c *memcache.Client) error {
		missing := c.Touch("a", 100)
		set := c.Set(&memcache.Item{Key: "a", Value: []byte("1"), Expiration: 100})
		touched := c.Touch("a", 200)
		got, err := c.GetAndTouch("a", 300)
		if err != nil || string(got.Value) != "1" {
			return fmt.Errorf("get and touch: %v", err)
		}
		_, miss := c.GetAndTouch("missing", 1)
		ended := c.Touch("a", -1)
		_, gone := c.Get("a")
		return first(expect(missing, memcache.ErrCacheMiss), set, touched,
			expect(miss, memcache.ErrCacheMiss), ended, expect(gone, memcache.ErrCacheMiss))
	}},
	{"too large is an error and the next request works", func(c *memcache.Client) error {
		err := c.Set(&memcache.Item{Key: "a", Value: bytes.Repeat([]byte("x"), 2<<20)})
		if err == nil {
			return errors.New("stored")
		}
		return first(c.Set(item("b", "1")), holds(c, "b", "1"))
	}},
	{"keys to the limit", func(c *memcache.Client) error {
		longest := strings.Repeat("k", 250)
		return first(c.Set(item(longest, "1")), holds(c, longest, "1"),
			expect(c.Set(item(longest+"k", "1")), memcache.ErrMalformedKey))
	}},
	{"ping answers", func(c *memcache.Client) error { return c.Ping() }},
	{"many goroutines share a client", func(c *memcache.Client) error {
		if err := c.Set(item("n", "0")); err != nil {
			return err
		}
		var wait sync.WaitGroup
		errs := make(chan error, 32)
		for i := 0; i < 32; i++ {
			wait.Add(1)
			go func() {
				defer wait.Done()
				for j := 0; j < 100; j++ {
					if _, err := c.Increment("n", 1); err != nil {
						errs <- err
						return
					}
				}
			}()
		}
		wait.Wait()
		close(errs)
		return first(<-errs, holds(c, "n", "3200"))
	}},
}

func item(key, value string) *memcache.Item {
	return &memcache.Item{Key: key, Value: []byte(value)}
}

func holds(c *memcache.Client, key, value string) error {
	item, err := c.Get(key)
	if err == nil && string(item.Value) != value {
		err = fmt.Errorf("%s holds %q, not %q", key, item.Value, value)
	}
	return err
}

func expect(got, want error) error {
	if errors.Is(got, want) {
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
