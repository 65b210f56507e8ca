package writ

import "time"

// MaxTokenUses is how many nodes one join token admits at most.
const MaxTokenUses = 1000

// JoinToken is a join token as its datacenter knows it. Its secret is nowhere but with whoever has the token.
type JoinToken struct {
	ID         string       `json:"id"`
	Datacenter DatacenterID `json:"datacenter"`
	CreatedBy  string       `json:"created_by"`
	Expires    time.Time    `json:"expires"` // it was revoked if that is before its maker wanted it
	Uses       int          `json:"uses"`    // nodes that it admits
	Used       int          `json:"used"`
	Nodes      []string     `json:"nodes"` // names of those that it admitted
}
