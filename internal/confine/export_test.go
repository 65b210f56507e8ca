package confine

import "os"

// MappedForTest exports mapped, which Mapped calls for each map.
func (a *Accounts) MappedForTest(text string) bool { return a.mapped(text) }

// CountLooksForTest replaces the process list by processes of the given users, and returns a counter of its reads.
func (r *Register) CountLooksForTest(running ...uint32) *int {
	looks := new(int)
	r.list = func(of func(user uint32) bool) (map[uint32][]int, error) {
		*looks++
		all := map[uint32][]int{}
		for _, user := range running {
			if of(user) {
				all[user] = []int{os.Getpid()}
			}
		}
		return all, nil
	}
	return looks
}
