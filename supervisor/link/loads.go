package link

import (
	"time"

	"writ"
)

// Limits of a request for loads. An answer has at most the size of a frame.
const (
	MaxLoads   = 500 // resources
	MaxSampled = 20  // resources with samples; the samples of further resources are omitted
)

// Messages of VerbLoads.
type (
	// Loads asks for the loads of resources. The answer is a LoadList.
	Loads struct {
		Of      []LoadOf `json:"of"`
		Samples bool     `json:"samples,omitempty"` // with the samples of a day
	}
	// LoadOf names a resource and the node that has it: a node may report only the loads of its own resources.
	LoadOf struct {
		Node writ.NodeID `json:"node"`
		UID  writ.UID    `json:"uid"`
	}
	// LoadList holds the loads that nodes have reported since the start of the supervisor.
	LoadList struct {
		Loads []Load `json:"loads"`
	}
	// Load is the load of a resource at the last report of its node.
	Load struct {
		Node        writ.NodeID `json:"node"`
		UID         writ.UID    `json:"uid"`
		At          time.Time   `json:"at"` // when the report arrived
		Running     bool        `json:"running,omitempty"`
		MilliCPUs   int64       `json:"milli_cpus"` // mean of half a minute
		MemoryBytes int64       `json:"memory_bytes"`
		// Restarts counts the restarts by the node because the processes had ended.
		Restarts int64        `json:"restarts,omitempty"`
		Samples  []LoadSample `json:"samples,omitempty"` // oldest first
	}
	// LoadSample is the load of a resource during five minutes.
	LoadSample struct {
		At          time.Time `json:"at"`           // start of the five minutes
		MilliCPUs   int64     `json:"milli_cpus"`   // mean
		MemoryBytes int64     `json:"memory_bytes"` // highest value
	}
)
