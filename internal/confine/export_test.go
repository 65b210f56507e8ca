package confine

import "os"

// MappedForTest is what Mapped asks of each map.
func (a *Accounts) MappedForTest(text string) bool { return a.mapped(text) }

// CountLooksForTest counts looks at the processes of the host, of which there are those of some users then.
func (r *Register) CountLooksForTest(running ...uint32) *int {
	looks := new(int)
	r.look = func(of func(user uint32) bool) (map[uint32][]int, error) {
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
