package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/pki"
)

// Record is the content of member.json.
type Record struct {
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Node       writ.NodeID       `json:"node"`
	Name       string            `json:"name"`
	Admission  writ.Admission    `json:"admission"`
	Epoch      int64             `json:"epoch"` // supervisor's epoch when the node was admitted
	// Keys holds the public halves of the node's keys. Earlier versions of writ stored no keys; the next change of the
	// record adds them.
	Keys PublicKeys `json:"keys,omitzero"`
	// Rosters holds the links of an identity.RosterChain. Earlier versions of writ stored the full text of each roster.
	Rosters [][]byte `json:"rosters"`
	// State of a removed node. FenceOrdered: the node was ordered to stop its resources. Fenced: the node has stopped all
	// of them and reported this. FenceRound: the number of reports so far.
	FenceOrdered bool  `json:"fence_ordered,omitempty"`
	Fenced       bool  `json:"fenced,omitempty"`
	FenceRound   int64 `json:"fence_round,omitempty"`
	// Floor holds the newest known revocations of certificates in the datacenter.
	Floor *pki.Floor `json:"certificate_floor,omitempty"`
}

// store holds the record of a member and its newest roster. Changes are on disk before they take effect.
type store struct {
	path string     // path of member.json
	keys PublicKeys // public halves of the key files

	changing sync.Mutex // one change of the record at a time
	mu       sync.Mutex
	record   Record
	roster   *identity.Roster // newest roster of the record
}

// load reads the record, if it exists. ageLost means that the file of the age key was missing and a new key was
// created. In this case load writes the new public key to the record. Secrets that were encrypted for the old key
// cannot be decrypted any more, and calls that need them fail.
func (s *store) load(ageLost bool) error {
	text, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the membership: %w", err)
	}
	if err := json.Unmarshal(text, &s.record); err != nil {
		return damaged(s.path, err)
	}
	newAge := ageLost && s.record.Keys != (PublicKeys{})
	if newAge {
		s.record.Keys.Age = s.keys.Age
	}
	if err := s.record.Keys.compare(s.keys, s.path); err != nil {
		return err
	}
	// The rosters were valid when they were stored. Each signature check tests whether the newest roster has expired.
	s.roster, err = identity.VerifyRosters(s.record.Cluster, s.record.Rosters, time.Time{})
	if err != nil {
		return damaged(s.path, fmt.Errorf("verify the stored rosters: %w", err))
	}
	if newAge {
		return s.Change(func(*Record) {})
	}
	return nil
}

// State returns the record.
func (s *store) State() Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record
}

// Roster returns the newest verified roster.
func (s *store) Roster() *identity.Roster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roster
}

// Adopt verifies and stores links that follow the node's rosters.
func (s *store) Adopt(following [][]byte) error {
	if len(following) == 0 {
		return nil
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	next := s.State()
	known := identity.RosterChain{Newest: s.Roster(), Links: next.Rosters}
	chain, err := known.Extend(next.Cluster, following, time.Now())
	if err != nil {
		return fmt.Errorf("verify the rosters after version %d: %w", known.Newest.Version, err)
	}
	if chain.Newest == known.Newest {
		return nil
	}
	next.Rosters = chain.Links
	return s.write(next, chain.Newest)
}

// KeepFloor stores floor. A floor of another datacenter is ignored.
func (s *store) KeepFloor(floor pki.Floor) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	next := s.State()
	if floor.Datacenter != next.Datacenter {
		return nil
	}
	next.Floor = &floor
	return s.write(next, s.Roster())
}

// Change stores a change of the record and applies it.
func (s *store) Change(change func(r *Record)) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	next := s.State()
	change(&next)
	return s.write(next, s.Roster())
}

// write writes the record and applies it.
func (s *store) write(next Record, roster *identity.Roster) error {
	next.Keys = s.keys
	text, err := json.MarshalIndent(next, "", "\t")
	if err != nil {
		return fmt.Errorf("encode the membership: %w", err)
	}
	if err := writeFile(s.path, text); err != nil {
		return fmt.Errorf("store the membership: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record, s.roster = next, roster
	return nil
}
