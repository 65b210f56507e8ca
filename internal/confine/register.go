package confine

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
)

// Register remembers who has which user. What is recorded of that is on disk; this is for the time before.
type Register struct {
	mu     sync.Mutex
	chosen map[uint32]string
	look   func(of func(user uint32) bool) (map[uint32][]int, error) // in place of processes, for tests
}

// Choose returns a user for a name that nobody else has: by the records, by a choice that is about to be recorded, by what is left in dir,
// where each has a directory of its name and its group, or by what runs on this host.
func (r *Register) Choose(a *Accounts, name string, recorded func() (map[uint32]string, error), dir string) (uint32, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	used, err := recorded()
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.Name() != name { // else it went this moment
			used[groupOf(info)] = e.Name()
		}
	}
	look := r.look
	if look == nil {
		look = processes
	}
	running, err := look(a.Has) // once for all: a host has thousands
	if err != nil {
		return 0, err
	}
	user, err := a.Choose(name, func(user uint32) bool {
		return used[user] != "" && used[user] != name || r.chosen[user] != "" && r.chosen[user] != name ||
			slices.ContainsFunc(running[user], func(pid int) bool { return !contained(pid) })
	})
	if err != nil {
		return 0, err
	}
	if r.chosen == nil {
		r.chosen = map[uint32]string{}
	}
	r.chosen[user] = name
	return user, nil
}

// Forget lets others have the user of a name of which nothing is left.
func (r *Register) Forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for user, whose := range r.chosen {
		if whose == name {
			delete(r.chosen, user)
		}
	}
}
