package netns_test

import (
	"os"
	"path/filepath"
	"testing"

	"writ/internal/netns"
	"writ/internal/test/testenv"
)

// A thread left in another namespace would do later work there.
func TestAsideRestoresEveryThread(t *testing.T) {
	testenv.NeedRoot(t)
	home, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if err := netns.Aside(func() error {
			if there, err := os.Readlink("/proc/thread-self/ns/net"); err != nil || there == home {
				t.Errorf("aside is %s, %v", there, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	threads, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range threads {
		if at, err := os.Readlink(path); err == nil && at != home {
			t.Errorf("%s is %s, and home is %s", path, at, home)
		}
	}
}
