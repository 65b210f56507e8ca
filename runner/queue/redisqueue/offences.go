package redisqueue

import (
	"strconv"
	"sync"

	"writ"
	"writ/runner/queue"
)

// offences are the offences of nodes since the last survey, one of each kind per node.
type offences struct {
	mu  sync.Mutex
	all map[offence]queue.Finding
}

type offence struct {
	node writ.NodeID
	kind queue.Offence
}

// add counts an offence.
func (o *offences) add(f queue.Finding) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = make(map[offence]queue.Finding)
	}
	at := offence{f.Node, f.Offence}
	f.Count += o.all[at].Count
	f.Bytes += o.all[at].Bytes
	o.all[at] = f
}

// take returns and clears all offences.
func (o *offences) take() (all []queue.Finding) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.all {
		all = append(all, f)
	}
	o.all = nil
	return all
}

// number parses a number from Redis; 0 if invalid.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
