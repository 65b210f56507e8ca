package supervisor

import (
	"context"
	"fmt"
	"sync"

	"writ"
	"writ/identity"
	"writ/scripts"
	"writ/supervisor/journal"
)

// maxPrograms bounds the runs whose bundle is kept in memory, at most 512 KiB each; the others are read again for each pass.
const maxPrograms = 256

// program is what a pass of a run needs besides its journal.
type program struct {
	bundle scripts.Bundle
	inputs scripts.Inputs
}

// programs keeps the programs of active runs.
type programs struct {
	mu   sync.Mutex
	kept map[writ.RunID]*program
}

func newPrograms() *programs { return &programs{kept: make(map[writ.RunID]*program)} }

func (p *programs) get(id writ.RunID) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept[id]
}

func (p *programs) put(id writ.RunID, program *program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for other := range p.kept { // any will do: it is read again when it is needed
		if len(p.kept) < maxPrograms {
			break
		}
		delete(p.kept, other)
	}
	p.kept[id] = program
}

func (p *programs) forget(id writ.RunID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.kept, id)
}

// program returns bundle and inputs of a run, from its signed payload.
func (s *Supervisor) program(ctx context.Context, run *journal.Run) (*program, error) {
	if p := s.programs.get(run.ID); p != nil {
		return p, nil
	}
	signed, err := s.payload(ctx, run.Payload)
	if err != nil {
		return nil, err
	}
	text, _, err := identity.Split(signed)
	if err != nil {
		return nil, fmt.Errorf("read the payload of run %s: %w", run.ID, err)
	}
	payload, err := identity.ParsePayload(text)
	if err != nil {
		return nil, fmt.Errorf("read the payload of run %s: %w", run.ID, err)
	}
	p := &program{
		bundle: bundleOf(payload),
		inputs: scripts.Inputs{
			Params: payload.Params, Run: run.ID, Project: run.ProjectName, Datacenter: s.Datacenter,
			DatacenterName: run.DatacenterName, Allow: payload.Allow, MaxCalls: payload.MaxCalls,
		},
	}
	s.programs.put(run.ID, p)
	return p, nil
}

// payload returns a submission as it was signed.
func (s *Supervisor) payload(ctx context.Context, digest writ.Digest) (signed []byte, err error) {
	err = s.Journal.Read(ctx, func(tx *journal.Tx) error {
		signed, err = tx.Payload(digest)
		return err
	})
	if err == nil && signed == nil {
		err = writ.Errorf(writ.CodeNotFound, "there is no payload %s in this datacenter", digest)
	}
	return signed, err
}
