package interpreter

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/d5/tengo/v2"

	"writ"
	"writ/internal/endpoint"
	"writ/internal/lazyregexp"
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
	"text": {least: 2, most: 2, call: runText, args: "template, map",
		help: "the template with the values of the map in place of {name}; a text with a secret is a secret"},
	"url": {least: 3, most: 3, call: runURL, args: "scheme, resource, port",
		help: "waits for the URL of a resource's port, with the published address or else the address on its network"},
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
		switch p.lines {
		case scripts.MaxLogLines:
			continue
		case scripts.MaxLogLines - 1:
			line = fmt.Sprintf("a run keeps %d lines; what follows is dropped", scripts.MaxLogLines)
		}
		if p.lines++; p.lines > p.inputs.Logged {
			p.logs = append(p.logs, scripts.Printable(line))
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

var (
	schemePattern = lazyregexp.New(`^[a-z][a-z0-9+.-]{0,31}$`)
	hostPattern   = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)
)

// runURL returns the address of a resource's port as a URL. It waits for the resource, like a read of its fields.
func runURL(p *pass, args []tengo.Object) (tengo.Object, error) {
	scheme, ok := args[0].(*tengo.String)
	if !ok || !schemePattern.MatchString(scheme.Value) {
		return nil, fmt.Errorf(`run.url takes a scheme such as "http" first, not %s`, shortForm(args[0]))
	}
	port, ok := args[2].(*tengo.Int)
	if !ok || port.Value < 1 || port.Value > 65535 {
		return nil, fmt.Errorf("run.url takes a port from 1 to 65535 third, not %s", shortForm(args[2]))
	}
	text := ""
	switch of := args[1].(type) {
	case *tengo.String:
		if _, err := netip.ParseAddr(of.Value); err != nil && !hostPattern.MatchString(of.Value) {
			return nil, fmt.Errorf("run.url takes a host second, not %s", shortForm(of))
		}
		text = endpoint.Join(of.Value, port.Value)
	case *handle:
		fields, later, err := addressesOf(of)
		if later != nil || err != nil {
			return later, err
		}
		if text, err = hostPort(strings.Trim(of.String(), "<>"), fields, port.Value); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("run.url takes a machine, container, herodb or host second, not %s", shortForm(of))
	}
	text = scheme.Value + "://" + text
	return &tengo.String{Value: text}, p.meter.burnMemory(len(text))
}

// addressesOf returns the result fields of a handle that have addresses. Otherwise later is the result of run.url: an
// unknown value in a plan, or undefined if the pass has to wait for the call.
func addressesOf(h *handle) (fields map[string]any, later tengo.Object, err error) {
	fields = make(map[string]any)
	for _, name := range []string{"published", "host", "port", "address", "ipv4"} {
		if _, has := h.op.Result.Field(name); !has {
			continue
		}
		value, err := h.IndexGet(&tengo.String{Value: name})
		if err != nil {
			return nil, nil, err
		}
		if isUnknown(value) || h.pass.suspended != nil {
			return nil, value, nil
		}
		fields[name] = valueOf(value)
	}
	if len(fields) == 0 {
		return nil, nil, fmt.Errorf("run.url takes a machine, container, herodb or host second, not the result of %s",
			h.op.Name())
	}
	return fields, nil, nil
}

// shortForm describes an argument of the wrong form, for errors.
func shortForm(o tengo.Object) string {
	switch o := o.(type) {
	case *tengo.String:
		return fmt.Sprintf("%q", scripts.Printable(o.Value[:min(len(o.Value), 40)]))
	case *tengo.Int:
		return o.String()
	}
	return "a " + o.TypeName()
}

// hostPort returns host:port for a port of a resource with these result fields. It prefers a published port, because
// clients outside the network reach it too.
func hostPort(resource string, fields map[string]any, port int64) (string, error) {
	if host, _ := fields["host"].(string); host != "" {
		if own, _ := fields["port"].(int64); own != port {
			return "", noPort("%s listens on port %d, not on %d", resource, own, port)
		}
		return endpoint.Join(host, port), nil
	}
	list, _ := fields["published"].([]any)
	if best := bestPublished(list, port); best != "" {
		return best, nil
	}
	published := catalog.Publishing(list)
	if i := slices.IndexFunc(published, func(p catalog.Publish) bool { return p.Port == port }); i >= 0 {
		return "", noPort("%s does not publish its port %d: port %d of the node leads to its port %d", resource, port, port,
			published[i].To)
	}
	address, _ := fields["address"].(string)
	if ipv4, _ := fields["ipv4"].(string); address == "" {
		address = ipv4
	}
	switch {
	case address != "":
		return endpoint.Join(address, port), nil
	case len(published) == 0:
		return "", noPort("%s has no network and publishes no port", resource)
	}
	return "", noPort("%s has no network and publishes its port %s, not %d", resource, targets(published), port)
}

func noPort(format string, args ...any) error {
	return writ.Errorf(writ.CodeScriptFailed, "run.url: "+format, args...).
		WithHint("name the port on which the program listens: the field `to` of publish")
}

// targets lists the published ports of a resource: "80 and 443".
func targets(published []catalog.Publish) string {
	var all []string
	for _, p := range published {
		if text := fmt.Sprint(p.To); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, " and ")
}

// bestPublished returns the host and port of the node that lead to a port of the resource, or "". It prefers TCP, then
// addresses that other hosts reach, then the order of the list.
func bestPublished(list []any, to int64) string {
	best, bestRank := "", 4
	for _, one := range list {
		for _, p := range catalog.Publishing([]any{one}) {
			fields, _ := one.(map[string]any)
			address, _ := fields["address"].(string)
			if p.To != to {
				continue
			}
			rank := 0
			if p.Protocol != "tcp" {
				rank += 2
			}
			if a, err := netip.ParseAddr(address); err == nil && a.IsLoopback() {
				rank++
			}
			if rank < bestRank {
				best, bestRank = endpoint.Join(address, p.Port), rank
			}
		}
	}
	return best
}
