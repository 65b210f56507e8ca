package journal

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"writ"
)

// appendEvent appends an event exactly as encoding/json encodes it. Nearly all events of a busy datacenter are about
// calls. Encoding them with reflection took 5 % of the supervisor's CPU, so their fields are written explicitly.
func appendEvent(text []byte, e *writ.Event) ([]byte, error) {
	o := object{text: text}
	if e.Call == nil {
		o.value(e)
		return o.end()
	}
	c := e.Call
	o.begin()
	o.key("journal").quote(e.Journal)
	o.key("seq").number(e.Seq)
	o.key("time").time(e.Time)
	o.key("call").begin()
	o.key("run").quote(string(c.Run))
	o.key("seq").number(int64(c.Seq))
	o.key("operation").quote(c.Operation)
	o.given("kind", string(c.Kind))
	o.given("name", c.Name)
	o.given("position", c.Position)
	o.key("state").quote(string(c.State))
	o.given("node", string(c.Node))
	o.given("node_name", c.NodeName)
	o.given("driver", c.Driver)
	if c.Simulated {
		o.key("simulated").value(true)
	}
	o.given("change", string(c.Change))
	o.key("try").number(int64(c.Attempt))
	o.key("delivery").number(int64(c.Delivery))
	if len(c.After) > 0 {
		o.key("after").value(c.After)
	}
	if c.Error != nil {
		o.key("error").value(c.Error)
	}
	if !c.Why.IsZero() {
		o.key("why").value(c.Why)
	}
	o.given("reason", c.Reason)
	o.key("planned").time(c.Planned)
	o.past("queued", c.Queued)
	o.past("started", c.Started)
	o.past("ended", c.Ended)
	o.past("end_by", c.EndBy)
	o.text = append(o.text, "}}"...)
	return o.end()
}

// object is a JSON object under construction.
type object struct {
	text []byte
	err  error // first error of the encoding
}

func (o *object) end() ([]byte, error) {
	if o.err != nil {
		return nil, fmt.Errorf("encode event: %w", o.err)
	}
	return o.text, nil
}

func (o *object) begin() { o.text = append(o.text, '{') }

// key starts a field. The name must not need escapes.
func (o *object) key(name string) *object {
	if o.text[len(o.text)-1] != '{' {
		o.text = append(o.text, ',')
	}
	o.text = append(append(append(o.text, '"'), name...), `":`...)
	return o
}

// given writes a text field, unless the text is empty.
func (o *object) given(name, text string) {
	if text != "" {
		o.key(name).quote(text)
	}
}

// past writes a time field, unless the time is zero.
func (o *object) past(name string, t time.Time) {
	if !t.IsZero() {
		o.key(name).time(t)
	}
}

func (o *object) number(n int64) { o.text = strconv.AppendInt(o.text, n, 10) }

func (o *object) quote(text string) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			o.value(text)
			return
		}
	}
	o.text = append(append(append(o.text, '"'), text...), '"')
}

func (o *object) time(t time.Time) {
	text, err := t.AppendText(append(o.text, '"'))
	o.take(append(text, '"'), err)
}

// value writes any value as encoding/json does.
func (o *object) value(v any) {
	text, err := json.Marshal(v)
	o.take(append(o.text, text...), err)
}

func (o *object) take(text []byte, err error) {
	if err == nil {
		o.text = text
	} else if o.err == nil {
		o.err = err
	}
}

// MaxSaid limits the size of an event with data from a node, in bytes. A link sends events in order and never splits
// one. An event that is larger than a frame would therefore block all later events.
const MaxSaid = 256 << 10

// Shorten removes most data of a node from an event if the event is too large for a link. It reports whether it did.
func Shorten(e *writ.Event) bool {
	if e.Node == nil && e.Resource == nil {
		return false // the datacenter determines the size of all other events
	}
	text, err := json.Marshal(e)
	if err != nil || len(text) <= MaxSaid {
		return false
	}
	shorten(e)
	return true
}

// shorten removes the unbounded data of a node from an event. Values that the event points to are not changed.
func shorten(e *writ.Event) {
	if e.Node != nil {
		n := *e.Node
		n.Drivers, n.Host, n.Stuck, n.Orphans, n.Network = nil, nil, nil, nil, nil
		if n.Fence != nil {
			fence := *n.Fence
			fence.Open = nil
			n.Fence = &fence
		}
		e.Node = &n
	}
	if e.Resource != nil {
		r := *e.Resource
		r.Drift, r.Mended = nil, nil
		e.Resource = &r
	}
}
