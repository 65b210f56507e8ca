package delivery

import (
	"sync"

	"writ"
)

// outbox holds in memory which waiting submissions are being delivered, and the last error of each submission. This may
// be lost at any time, because the submissions themselves are in the ledger.
type outbox struct {
	mu       sync.Mutex
	held     map[writ.Digest]bool
	troubles map[writ.Digest]*writ.Error
	bells    map[writ.DatacenterID]chan struct{}
}

// bell returns the channel that receives a token when new submissions may wait for a datacenter.
func (o *outbox) bell(datacenter writ.DatacenterID) chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bells == nil {
		o.bells = map[writ.DatacenterID]chan struct{}{}
	}
	if o.bells[datacenter] == nil {
		o.bells[datacenter] = make(chan struct{}, 1)
	}
	return o.bells[datacenter]
}

// wake signals the bell of a datacenter.
func (o *outbox) wake(datacenter writ.DatacenterID) {
	select {
	case o.bell(datacenter) <- struct{}{}:
	default: // already signalled
	}
}

// wakeAll signals every bell.
func (o *outbox) wakeAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, bell := range o.bells {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}

// hold reserves a submission for the caller until release. It reports false if another caller holds it.
func (o *outbox) hold(payload writ.Digest) (release func(), ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held[payload] {
		return nil, false
	}
	if o.held == nil {
		o.held = map[writ.Digest]bool{}
	}
	o.held[payload] = true
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.held, payload)
	}, true
}

// note records why a submission still waits after an attempt to deliver it.
func (o *outbox) note(payload writ.Digest, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.troubles == nil {
		o.troubles = map[writ.Digest]*writ.Error{}
	}
	o.troubles[payload] = writ.AsError(err)
}

func (o *outbox) trouble(payload writ.Digest) *writ.Error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.troubles[payload]
}

// forget drops the error of a submission that no longer waits.
func (o *outbox) forget(payload writ.Digest) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.troubles, payload)
}
