// Package rehearsal runs scripts for tests of scripts. It starts a datacenter (a supervisor and its nodes) in this
// process. Only its drivers and its queue are simulated. The package knows how to assemble such a datacenter. It must
// not know the expectations of a test.
package rehearsal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/registry"
	"writ/identity"
	"writ/identity/target"
	"writ/scripts"
	"writ/scripts/interpreter"
	"writ/scripts/scripttest"
	"writ/supervisor/journal"
)

// Sim runs the scripts of one test. Set the fields before use, and call Close at the end. It builds its datacenter for
// the first script.
type Sim struct {
	Dir       string            // base of relative script paths
	Modules   client.Modules    // additional modules that scripts may import
	Evaluator scripts.Evaluator // evaluates the scripts
	Log       *slog.Logger      // of the datacenter

	mu      sync.Mutex // serialises runs
	cluster *cluster
}

var _ scripttest.Sim = (*Sim)(nil)

// deadline is the deadline that is signed with each script. No run reaches it, because the test ends earlier.
const deadline = time.Hour

// Close stops the datacenter and removes its files.
func (s *Sim) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		return nil
	}
	err := s.cluster.close()
	s.cluster = nil
	return err
}

// Run implements scripttest.Sim. Like `writ submit`, it checks, signs and submits the script. The key exists only in
// this process.
func (s *Sim) Run(ctx context.Context, r scripttest.Rehearsal) (scripttest.Rehearsed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	script, err := s.script(r.Script)
	if err != nil {
		return scripttest.Rehearsed{}, err
	}
	if err := s.found(ctx, cmp.Or(r.Nodes, scripttest.SimNodes)); err != nil {
		return scripttest.Rehearsed{}, err
	}
	cues := s.cluster.cues
	cues.set(r.Faults, r.Results)
	run, err := s.submit(ctx, script, r)
	if refusal, ok := errors.AsType[*writ.Error](err); ok && ctx.Err() == nil && refusal.Code.Info().Kind != writ.Unavailable {
		return scripttest.Rehearsed{State: scripttest.StateRefused, Failure: failureOf(refusal)}, nil
	}
	if err != nil {
		return scripttest.Rehearsed{}, err
	}
	if err := s.cluster.await(ctx, run); err != nil {
		return scripttest.Rehearsed{}, s.unended(r.Script, run, err)
	}
	done, err := s.cluster.played(ctx, run)
	done.Untouched = cues.untouched()
	return done, err
}

// Plan implements scripttest.Sim. It needs no datacenter.
func (s *Sim) Plan(ctx context.Context, r scripttest.Rehearsal) (scripts.Plan, error) {
	script, err := s.script(r.Script)
	if err != nil {
		return scripts.Plan{}, err
	}
	params, err := script.Report.Params.Fill(r.Params)
	if refusal, ok := errors.AsType[*writ.Error](err); ok {
		return scripts.Plan{Failure: failureOf(refusal)}, nil
	}
	if err != nil {
		return scripts.Plan{}, err
	}
	return interpreter.PlanOf(ctx, script.Bundle, scripts.Inputs{
		Params: params, Project: cmp.Or(r.Project, client.DefaultProject), DatacenterName: datacenterName,
		Allow: script.Report.Operations, MaxCalls: scripts.MaxCalls, Secrets: client.FirstVersions(script.Report.Secrets),
	})
}

// failureOf converts a rejection for a test, without its cause.
func failureOf(refusal *writ.Error) *writ.Failure {
	return &writ.Failure{Error: writ.Error{Code: refusal.Code, Message: refusal.Message, Hint: refusal.Hint}}
}

// script reads and checks a script.
func (s *Sim) script(path string) (client.Script, error) {
	if scripts.IsTest(path) {
		return client.Script{}, writ.Errorf(writ.CodeUsage, "%s has tests and is not a script", path)
	}
	whole := path
	if !filepath.IsAbs(path) {
		whole = filepath.Join(s.Dir, path)
	}
	script, err := client.ReadScript(whole, s.Modules)
	if err != nil {
		return script, err
	}
	if !script.Report.OK() {
		return script, writ.Errorf(writ.CodeScriptInvalid, "the check of %s found errors:\n%s", path, strings.TrimSuffix(script.Report.String(), "\n"))
	}
	return script, nil
}

// found builds the datacenter if it does not exist.
func (s *Sim) found(ctx context.Context, nodes int) (err error) {
	switch {
	case s.cluster != nil && s.cluster.nodes != nodes:
		return writ.Errorf(writ.CodeUsage, "the datacenter of this test has %d nodes, and cannot have %d: give all runs of a test the same "+
			"number", s.cluster.nodes, nodes)
	case s.cluster != nil:
		return nil
	}
	if s.cluster, err = newCluster(ctx, nodes, s.Evaluator, s.Log); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// submit signs and submits a script.
func (s *Sim) submit(ctx context.Context, script client.Script, r scripttest.Rehearsal) (writ.RunID, error) {
	cluster := s.cluster
	project, err := cluster.project(ctx, r.Project)
	if err != nil {
		return "", err
	}
	order := client.Order{
		Script: script, Params: r.Params, Datacenter: cluster.datacenter, Project: project, Expires: identity.DefaultValidity,
		Deadline: deadline, MaxCalls: scripts.MaxCalls, Targets: []string{target.Any},
	}
	revision := revisionOf{project.ID, r.Deployment}
	if r.Deployment != "" {
		order.Deployment = identity.Deployment{Name: r.Deployment, Base: cluster.revisions[revision]}
	}
	if order.Secrets, err = cluster.secrets(ctx, project.ID, script.Report.Secrets); err != nil {
		return "", err
	}
	if err := registry.ResolveImages(ctx, &order, cluster.super.Roster(), nil, registry.DigestOfText); err != nil {
		return "", err
	}
	signed, err := order.Sign(cluster.super.Roster(), cluster.person)
	if err != nil {
		return "", err
	}
	run, err := cluster.super.Submit(ctx, signed)
	if err == nil {
		cluster.revisions[revision]++
	}
	return run.ID, err
}

// unended returns the error for a run that did not end in time, with its open calls.
func (s *Sim) unended(script string, run writ.RunID, why error) error {
	// ctx may have ended. The journal is in memory, so this read is short.
	state, calls, err := s.cluster.look(context.Background(), run)
	if err != nil {
		return why
	}
	text := fmt.Sprintf("%v: %s is %s", why, script, state.State)
	for _, c := range calls {
		if !c.State.Ended() {
			text += fmt.Sprintf("\n  %s is %s", scripttest.Target{Operation: c.Operation, Name: c.Name}, c.State)
			if why := c.Why.String(); why != "" {
				text += ": " + why
			}
		}
	}
	return writ.Errorf(writ.CodeTimeout, "%s", text)
}

// Resources implements scripttest.Sim.
func (s *Sim) Resources(ctx context.Context) ([]scripttest.SimResource, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		return nil, nil
	}
	var found []*journal.Resource
	names := make(map[writ.NodeID]string)
	err := s.cluster.journal.Read(ctx, func(tx *journal.Tx) error {
		nodes, err := tx.Nodes()
		if err != nil {
			return err
		}
		for _, n := range nodes {
			names[n.ID] = n.Name
		}
		found, err = tx.Resources()
		return err
	})
	slices.SortFunc(found, func(a, b *journal.Resource) int {
		return strings.Compare(a.ResourceID.String(), b.ResourceID.String())
	})
	all := make([]scripttest.SimResource, len(found))
	for i, r := range found {
		all[i] = scripttest.SimResource{Kind: r.Kind, Name: r.Name, Node: names[r.Node], Args: r.Args, Values: r.Values}
	}
	return all, err
}
