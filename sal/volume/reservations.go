package volume

import (
	"sync"

	"writ"
)

// reservations counts the archives being written. backups.files does not include them yet, so without reservations
// concurrent volume.send calls could exceed the limits of a project. The zero value is ready to use.
type reservations struct {
	checking sync.Mutex // held from a check of the limits until the reservation after it

	mu    sync.Mutex
	bytes map[writ.ProjectID][]int64
}

// add counts an archive until the caller calls release.
func (r *reservations) add(project writ.ProjectID, bytes int64) (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes == nil {
		r.bytes = map[writ.ProjectID][]int64{}
	}
	r.bytes[project] = append(r.bytes[project], bytes)
	return sync.OnceFunc(func() { r.remove(project, bytes) })
}

func (r *reservations) remove(project writ.ProjectID, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.bytes[project]
	for i, b := range all {
		if b == bytes {
			all[i] = all[len(all)-1]
			r.bytes[project] = all[:len(all)-1]
			break
		}
	}
	if len(r.bytes[project]) == 0 {
		delete(r.bytes, project)
	}
}

// of returns the size and number of the archives that a project is writing.
func (r *reservations) of(project writ.ProjectID) (bytes int64, count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.bytes[project] {
		bytes += b
	}
	return bytes, len(r.bytes[project])
}
