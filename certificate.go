package writ

import "time"

// Certificate describes the TLS certificate of a process. It contains no secret.
type Certificate struct {
	// Of is the owner: "coordinator", "supervisor" or "redis", or "public" for the certificate for browsers.
	Of string `json:"of"`
	// Name is the URI in the certificate. For the certificate for browsers, it is the coordinator's address.
	Name      string    `json:"name"`
	From      time.Time `json:"from"`               // start of its validity
	Until     time.Time `json:"until"`              // end of its validity
	Renew     time.Time `json:"renew,omitzero"`     // when its renewal is due
	Authority time.Time `json:"authority,omitzero"` // when the issuing authority was created
	Floor     time.Time `json:"floor,omitzero"`     // authorities of this owner created before it are invalid
}
