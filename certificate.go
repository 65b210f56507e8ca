package writ

import "time"

// Certificate is what a process shows of itself when others connect to it. It has no secret in it.
type Certificate struct {
	Of        string    `json:"of"`                 // whose it is: "coordinator", "supervisor", "redis", or "public" of the one for browsers
	Name      string    `json:"name"`               // the URI that is the one thing that it says; the address of the coordinator of one for browsers
	From      time.Time `json:"from"`               // when it was made
	Until     time.Time `json:"until"`              // when it ends
	Renew     time.Time `json:"renew,omitzero"`     // from when on another one is made
	Authority time.Time `json:"authority,omitzero"` // when the authority was made that issued it
	Floor     time.Time `json:"floor,omitzero"`     // authorities of its owner that were made before do not count any more
}
