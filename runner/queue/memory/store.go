package memory

import (
	"log/slog"
	"slices"
	"strconv"
	"sync"

	"writ"
	"writ/runner/queue"
)

// store is the server of this transport, like Redis in other implementations. It survives the processes that use it.
type store struct {
	mu         sync.Mutex
	processes  map[*process]bool // open processes
	waiting    map[writ.NodeID][]*item
	active     map[writ.NodeID][]*item
	streams    map[queue.Stream][]entry
	sent       int64 // number of messages ever sent, so that IDs are never reused
	generation string
}

// item is a waiting or active task.
type item struct {
	task queue.Task
	by   *process // the last process that received the task, or nil
}

type entry struct {
	number  int64
	message queue.Message
}

// attach adds a process. The caller must hold the lock if there are other processes.
func (s *store) attach(log *slog.Logger) *Queue {
	p := &process{
		store: s, serves: map[writ.NodeID]bool{}, finished: map[*item]bool{},
		read: map[queue.Stream]int64{},
	}
	s.processes[p] = true
	return &Queue{Log: log, process: p}
}

// holds reports whether a task is waiting or active. The caller must hold the lock.
func (s *store) holds(node writ.NodeID, id string) bool {
	has := func(t *item) bool { return t.task.ID == id }
	return slices.ContainsFunc(s.waiting[node], has) || slices.ContainsFunc(s.active[node], has)
}

// empty deletes all tasks, messages and the generation. The caller must hold the lock.
func (s *store) empty() {
	s.waiting = map[writ.NodeID][]*item{}
	s.active = map[writ.NodeID][]*item{}
	s.streams = map[queue.Stream][]entry{}
	s.generation = ""
}

// wake notifies every process of a change. The caller must hold the lock.
func (s *store) wake() {
	for p := range s.processes {
		p.changed.Wake()
	}
}

// Saved is a snapshot of a transport.
type Saved struct {
	waiting    map[writ.NodeID][]queue.Task
	streams    map[queue.Stream][]queue.Message
	generation string
}

func messageID(number int64) string { return strconv.FormatInt(number, 10) }
