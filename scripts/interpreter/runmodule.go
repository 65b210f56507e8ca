package interpreter

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/d5/tengo/v2"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
)

// runModule holds the data and functions of the run.
var runModule = map[string]member{
	"params": {read: func(p *pass) (tengo.Object, error) { return p.params() },
		help: "the values of the parameters that the script declares"},
	"id": {read: func(p *pass) (tengo.Object, error) { return p.runID(), nil },
		help: "the run's id"},
	"project": {read: func(p *pass) (tengo.Object, error) { return &tengo.String{Value: p.inputs.Project}, nil },
		help: "the name of the project"},
	"datacenter": {read: func(p *pass) (tengo.Object, error) { return &tengo.String{Value: p.inputs.DatacenterName}, nil },
		help: "the name of the datacenter"},
	"now": {call: runNow,
		help: "waits for the time, in UTC; all later passes of the run see the same time"},
	"log": {least: 1, most: -1, call: runLog, unknown: carries, args: "value, …",
		help: "writes the values to the run's log, separated by spaces"},
	"output": {least: 1, most: 1, call: runOutput, unknown: ends("the output"), args: "map",
		help: "adds to the output of the run; an existing key gets the new value"},
	"fail": {least: 1, most: 1, call: runFail, unknown: endsDeep("the text that the script fails with"), args: "why",
		help: "ends the script and its run as failed"},
	"secret": {least: 1, most: 1, call: runSecret, unknown: ends("the name of the secret"), args: "name",
		help: "a secret, for arguments only: only the node that needs it can read it"},
	"url": {least: 3, most: 3, call: runURL, args: "scheme, resource, port",
		help: "waits for the address of a resource's port as a URL: the published one, or else the one on its network"},
}

// runID returns the id of the run. It is unknown in a plan, because it is derived from the signed text.
func (p *pass) runID() tengo.Object {
	if p.plan != nil {
		return p.plan.unknown(nil)
	}
	return &tengo.String{Value: string(p.inputs.Run)}
}

// runNow requests the time like any other result: it is journaled, so all later passes see the same time.
func runNow(p *pass, _ []tengo.Object) (tengo.Object, error) {
	op, ok := catalog.Lookup("run.now")
	if !ok {
		return nil, writ.Errorf(writ.CodeInternal, "the catalogue has no run.now")
	}
	made, err := p.operate(op, nil)
	if err != nil {
		return nil, err
	}
	ms, err := made.IndexGet(&tengo.String{Value: "unix_ms"})
	if err != nil {
		return nil, err
	}
	if _, planned := ms.(*unknown); planned {
		return ms, nil
	}
	n, ok := ms.(*tengo.Int)
	if !ok {
		return nil, writ.Errorf(writ.CodeInternal, "the journal holds no time for call %d", p.seq)
	}
	return &tengo.Time{Value: time.UnixMilli(n.Value).UTC()}, nil
}

// runLog logs its arguments, joined by spaces. A text with several lines becomes several log lines.
func runLog(p *pass, args []tengo.Object) (tengo.Object, error) {
	var b strings.Builder
	for i, arg := range args {
		text, err := p.textForPeople(arg)
		if err != nil {
			return nil, err
		}
		if b.Len()+len(text) > maxString {
			return nil, tengo.ErrStringLimit
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(text)
	}
	if err := p.meter.burnMemory(b.Len()); err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(b.String(), "\n"), "\n") {
		switch {
		case len(p.logs) < p.inputs.Logged:
			p.logs = append(p.logs, "") // omitted from the outcome
		case len(p.logs) < scripts.MaxLogLines-1:
			p.logs = append(p.logs, scripts.Printable(line))
		case len(p.logs) == scripts.MaxLogLines-1:
			p.logs = append(p.logs, fmt.Sprintf("a run keeps %d lines; what follows is dropped", scripts.MaxLogLines))
		}
	}
	return tengo.UndefinedValue, nil
}

// runOutput adds to the output of the run; an existing key gets the new value.
func runOutput(p *pass, args []tengo.Object) (tengo.Object, error) {
	m, ok := pairsOf(args[0])
	if !ok {
		return nil, fmt.Errorf("run.output takes a map, not a %s", args[0].TypeName())
	}
	e := encoder{fuel: &p.meter, plain: true} // only to check the values
	if err := e.object(args[0], 0); err != nil {
		if err == errArguments {
			err = errOutput
		}
		return nil, within("the output", err)
	}
	if err := p.meter.burnMemory(4 * len(e.buf)); err != nil {
		return nil, err
	}
	if p.output == nil && len(m) > 0 {
		p.output = make(map[string]any)
	}
	maps.Copy(p.output, valuesOf(m))
	if scripts.EncodedSize(p.output) > scripts.MaxResult {
		return nil, errOutput
	}
	return tengo.UndefinedValue, nil
}

var errOutput = writ.Errorf(writ.CodeScriptLimit, "the output of a run may have %d bytes", scripts.MaxResult)

func runFail(p *pass, args []tengo.Object) (tengo.Object, error) {
	why, err := p.textForPeople(args[0])
	if err != nil {
		return nil, err
	}
	return nil, writ.Errorf(writ.CodeScriptFailed, "%s", why)
}
