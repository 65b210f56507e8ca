package confine

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
)

// Register maps chosen users (uids) to names until the choice is recorded on disk.
type Register struct {
	mu     sync.Mutex
	chosen map[uint32]string
	list   func(of func(user uint32) bool) (map[uint32][]int, error) // replaces the function processes in tests
}

// Choose returns a user for a name. It skips every user that belongs to another name: in the records, from an earlier
// call of Choose, or as the group of that name's directory in dir. It also skips users with running processes, except
// processes in containers, because images choose their own uids.
func (r *Register) Choose(
	a *Accounts, name string, recorded func() (map[uint32]string, error), dir string,
) (uint32, error) {
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
		if info, err := e.Info(); err == nil && e.Name() != name { // an error means that it has just been removed
			used[groupOf(info)] = e.Name()
		}
	}
	list := r.list
	if list == nil {
		list = processes
	}
	running, err := list(a.Has) // once for all users, because a host has thousands of processes
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

// Forget releases the user of a name that no longer exists.
func (r *Register) Forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for user, whose := range r.chosen {
		if whose == name {
			delete(r.chosen, user)
		}
	}
}
