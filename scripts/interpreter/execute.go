// Package interpreter compiles scripts and evaluates passes, plans and tests. Each of them is bounded in work, memory,
// depth and output, and equal inputs give equal outcomes. A pass has no access to a clock, randomness, files or the
// network.
package interpreter

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/parser"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/deletion"
)

// pass is one evaluation of a program.
type pass struct {
	inputs  scripts.Inputs
	entries []scripts.Entry // by sequence number: entries[i].Seq == i+1
	sizes   []int           // of their values, in bytes
	vm      *tengo.VM
	files   *parser.SourceFileSet
	intact  bool // the VM has ended without an error

	meter    meter
	seq      int // of the last call
	maxOpen  int // see scripts.MaxOpenCalls; 0 without a limit
	ended    int // a number of first calls that have all ended
	bytes    int // of all results, and of the arguments of all calls so far
	encoded  []byte
	calls    []scripts.NewCall
	lines    int      // number of log lines, including the omitted lines
	logs     []string // the lines after the first inputs.Logged
	lastRead spot     // where the script last read a result for the first time
	handled  []int    // failed calls whose .err was read, ascending
	output   map[string]any
	// suspended is the wait that stopped the VM and ended the pass.
	suspended *suspension
	waiting   *waiting // nil if the pass ends at its first wait
	images    signedImages
	named     names     // resources that the calls name; unused if inputs.Prune is empty
	made      []*handle // all calls; unused if inputs.Prune is empty
	pruning   bool      // the script has ended, and its resources are deleted
	record    *record   // the parameters, after the first read
	plan      *planning // nil outside of plans
	test      *trial    // the running test, nil outside of test files
}

var (
	errCalls = writ.Errorf(writ.CodeScriptLimit, "the script makes more than %d calls, the maximum of a run",
		scripts.MaxCalls).
		WithHint("divide the work among several runs: a parameter can select the part that one run does")
	errJournal = writ.Errorf(writ.CodeScriptLimit, "the arguments and results of a run may have %d bytes in all",
		scripts.MaxJournal)
)

// Pass evaluates the program against a journal: all calls of the run so far, in any order. The outcome is a function of
// program, inputs and journal alone. The only error is the cause of a cancelled ctx; the pass then has no outcome.
//
// The script may make at most inputs.MaxCalls calls, and only of operations in inputs.Allow. The zero Inputs allow no
// calls.
func (p *Program) Pass(ctx context.Context, inputs scripts.Inputs, journal []scripts.Entry) (scripts.Outcome, error) {
	run := p.newPass(inputs)
	err := run.read(journal)
	if err == nil {
		err = run.evaluate(ctx, p)
	}
	if ctx.Err() != nil {
		return scripts.Outcome{}, context.Cause(ctx)
	}
	return run.outcome(err), nil
}

func (p *Program) newPass(inputs scripts.Inputs) *pass {
	return &pass{
		inputs: inputs, meter: newMeter(), images: signedImages{named: inputs.Images},
		maxOpen: cmp.Or(p.MaxOpen, scripts.MaxOpenCalls),
	}
}

// read stores the journal in order. It sorts a copy if necessary.
func (p *pass) read(journal []scripts.Entry) error {
	bySeq := func(a, b scripts.Entry) int { return a.Seq - b.Seq }
	if p.entries = journal; !slices.IsSortedFunc(journal, bySeq) {
		p.entries = slices.SortedFunc(slices.Values(journal), bySeq)
	}
	p.sizes = make([]int, len(journal))
	for i := range p.entries {
		e := &p.entries[i]
		if e.Seq != i+1 {
			return writ.Errorf(writ.CodeNonDeterminism, "the journal has no call %d, or has it twice", i+1)
		}
		p.sizes[i] = scripts.EncodedSize(e.Values)
		p.bytes += p.sizes[i]
	}
	if p.bytes > scripts.MaxJournal {
		return errJournal
	}
	return nil
}

// evaluate runs the program until its end, its first wait or its failure.
func (p *pass) evaluate(ctx context.Context, program *Program) error {
	m := program.machine(p)
	inTime := context.AfterFunc(ctx, p.vm.Abort)
	err := p.run()
	program.release(m, p, inTime())
	return err
}

// run runs the VM of the pass, and then deletes the resources in inputs.Prune.
func (p *pass) run() (err error) {
	defer func() {
		if r := recover(); r != nil {
			p.intact = false
			err = &crash{cause: r, frames: p.frames()}
		}
	}()
	err = p.vm.Run()
	p.intact = err == nil
	switch {
	case p.suspended != nil: // the interrupted instruction may have returned another error
		return p.suspended
	case err != nil:
		return explain(p.vm, err)
	}
	if err := p.prune(); err != nil {
		return err
	}
	if p.seq < len(p.entries) {
		return writ.Errorf(writ.CodeNonDeterminism, "the script ended after %d calls; the journal has %d", p.seq,
			len(p.entries))
	}
	return nil
}

// frames returns the current position of the script and the positions of its callers, innermost first.
func (p *pass) frames() []string { return frames(p.vm, p.files) }

// params returns the parameters of the run.
func (p *pass) params() (tengo.Object, error) {
	if p.record != nil {
		return p.record, nil
	}
	r := &record{what: "parameter", fields: make(map[string]tengo.Object, len(p.inputs.Params))}
	for name, v := range p.inputs.Params {
		o, err := objectOf(v)
		if err != nil {
			return nil, err
		}
		r.fields[name] = o
	}
	p.record = r
	return r, nil
}

// operate makes a call with the next sequence number: the journaled call with this number or, if it is missing, a new
// call. Only new calls are validated, because later rules must not break runs that were accepted before.
func (p *pass) operate(op *catalog.Operation, args []tengo.Object) (*handle, error) {
	request, err := newRequest(op, args)
	if err != nil {
		return nil, err
	}
	if p.encoded, err = request.encode(&p.meter, p.encoded[:0]); err != nil {
		return nil, err
	}
	p.encoded = addImages(p.encoded, request, &p.images)
	if err := p.meter.burn(50 + int64(len(p.encoded))/16); err != nil {
		return nil, err
	}
	seq := p.seq + 1
	p.bytes += len(p.encoded)
	if seq > scripts.MaxCalls {
		return nil, errCalls
	}
	if p.bytes > scripts.MaxJournal {
		return nil, errJournal
	}
	if seq > len(p.entries) {
		if err := p.inputs.Permit(op, seq); err != nil {
			return nil, err
		}
		if err := p.awaitRoom(seq); err != nil {
			return nil, err
		}
	}
	p.seq = seq
	made := &handle{pass: p, op: op, seq: p.seq, name: request.resource(), later: request.later()}
	if len(p.inputs.Prune) > 0 {
		p.named.add(request, p.seq)
		p.made = append(p.made, made)
	}
	hash := writ.Digest(sha256.Sum256(p.encoded))
	if p.seq <= len(p.entries) {
		entry := &p.entries[p.seq-1]
		if entry.Hash != hash {
			return nil, writ.Errorf(writ.CodeNonDeterminism, "call %d is now %s; the journal has another call", p.seq, made)
		}
		if made.result.set(entry, p.sizes[p.seq-1]); made.result.open() {
			p.waiting.add(made, hash)
		}
		return made, nil
	}
	call, err := request.newCall(p.seq)
	if err != nil {
		return nil, err
	}
	if call.Args, err = resolveImages(p, request.op, call.Args); err != nil {
		return nil, err
	}
	call.Hash = hash
	if p.pruning {
		call.Position = scripts.PrunePosition
	} else if trace := p.frames(); len(trace) > 0 {
		call.Position = trace[0]
	}
	call.Read = p.lastRead.position(p.files)
	if p.plan != nil {
		p.plan.add(request, hash, call)
		return made, nil
	}
	p.calls = append(p.calls, *call)
	p.waiting.add(made, hash)
	return made, nil
}

// awaitRoom waits before the new call seq until all calls but the last maxOpen-1 have ended. A resume may have reopened
// any of them. It returns nil, or a suspension that ends the pass.
func (p *pass) awaitRoom(seq int) error {
	if p.maxOpen == 0 {
		return nil
	}
	for ; p.ended < seq-p.maxOpen; p.ended++ {
		if next := p.ended + 1; p.isOpen(next) && !p.waiting.until(next) {
			return &suspension{seq: next}
		}
	}
	return nil
}

// isOpen reports whether a call of the pass has no result.
func (p *pass) isOpen(seq int) bool {
	if p.waiting != nil {
		_, open := p.waiting.open[seq]
		return open
	}
	return seq > len(p.entries) || p.entries[seq-1].State == scripts.EntryOpen
}

// outcome returns the outcome of a pass that ended with err.
func (p *pass) outcome(err error) scripts.Outcome {
	o := scripts.Outcome{Calls: p.calls, Logs: p.logs, Handled: slices.Clone(p.handled)}
	var waits *suspension
	switch {
	case err == nil:
		o.Status, o.Output = scripts.Completed, p.output
	case errors.As(err, &waits):
		o.Status, o.Waiting = scripts.Waiting, []int{waits.seq}
		if err := p.missingCalls(); err != nil {
			o.Status, o.Waiting, o.Failure = scripts.Failed, nil, failure(err)
		}
	default:
		o.Status, o.Failure = scripts.Failed, failure(err)
	}
	return o
}

// missingCalls returns an error if the pass waits before it has made all calls of the journal. A deterministic script
// repeats all of them, because the journal has at least the results that the earlier pass had.
func (p *pass) missingCalls() error {
	if p.seq >= len(p.entries) {
		return nil
	}
	return writ.Errorf(writ.CodeNonDeterminism, "the script waits after %d calls; the journal has %d", p.seq,
		len(p.entries))
}

// failure converts an error to the failure of the script, with its position.
func failure(err error) *writ.Failure {
	trace, cause := unwind(err)
	if e, ok := err.(*explained); ok {
		cause = e.cause
	}
	f := &writ.Failure{Error: writ.Error{Code: writ.CodeScriptFailed, Message: cause.Error()}}
	if known, ok := errors.AsType[*writ.Error](cause); ok {
		f.Error = writ.Error{Code: known.Code, Message: known.Message, Hint: known.Hint}
	}
	if call, ok := errors.AsType[*callFailure](cause); ok {
		f.Seq = call.seq
	}
	f.Message, f.Hint = scripts.Printable(f.Message), scripts.Printable(f.Hint)
	if len(trace) > 0 {
		f.Position, f.Trace = trace[0], append(f.Trace, trace[1:]...)
	}
	return f
}

// crash is a panic of the VM, with its position.
type crash struct {
	cause  any
	frames []string
}

func (c *crash) Error() string { return fmt.Sprintf("%v", c.cause) }

// names holds the resources that the calls of a script name.
type names struct {
	known   map[deletion.Resource]bool
	unknown []int // calls with a name that is unknown in a plan, ascending
}

// add records the resource of a request, and the resources that its arguments give by name. An earlier call has named the
// resource of a handle.
func (n *names) add(r *request, seq int) {
	if n.known == nil {
		n.known = make(map[deletion.Resource]bool)
	}
	if r.op.Named() {
		n.known[deletion.Resource{Kind: r.op.Kind, Name: r.resource()}] = true
	}
	args := map[string]any{}
	if r.spec != nil {
		args, _ = valueOf(r.spec).(map[string]any)
	}
	for _, ref := range r.op.Args.Named(args) {
		n.known[deletion.Resource{Kind: ref.Kind, Name: ref.Name}] = true
	}
	uncertain := r.later() != nil
	_, _ = r.op.Args.ReplaceHandles(args, func(v any) (any, error) {
		_, later := v.(*unknown)
		uncertain = uncertain || later
		return v, nil
	})
	if uncertain {
		n.unknown = append(n.unknown, seq)
	}
}

// prune deletes the resources in inputs.Prune that the script did not name, stage by stage. It begins when all calls of
// the script have succeeded, except calls whose failure the script has handled. If another call failed, it deletes no
// resource, and the run fails.
func (p *pass) prune() error {
	if len(p.inputs.Prune) == 0 {
		return nil
	}
	p.pruning = true
	var left []deletion.Resource
	for _, listed := range p.inputs.Prune {
		kind, name, _ := strings.Cut(listed, "/")
		if r := (deletion.Resource{Kind: writ.ResourceKind(kind), Name: name}); !p.named.known[r] {
			left = append(left, r)
		}
	}
	if p.plan != nil && len(p.named.unknown) > 0 && len(left) > 0 {
		return &horizon{what: "the list of resources to delete", after: p.named.unknown}
	}
	for _, made := range p.made {
		err := made.await()
		if _, failed := err.(*callFailure); failed && made.handled {
			continue
		} else if failed {
			return nil
		} else if err != nil {
			return err
		}
	}
	for _, stage := range deletion.Stages(left) {
		first := len(p.made)
		for _, r := range stage {
			op, known := catalog.Lookup(string(r.Kind) + ".delete")
			if !known {
				return writ.Errorf(writ.CodeArgumentsInvalid, "no operation deletes the %s %s", r.Kind, r.Name)
			}
			if _, err := p.operate(op, []tengo.Object{&tengo.String{Value: r.Name}}); err != nil {
				return err
			}
		}
		for _, made := range p.made[first:] {
			if err := made.await(); err != nil {
				return err
			}
		}
	}
	return nil
}
