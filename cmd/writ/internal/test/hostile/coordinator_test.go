//go:build linux

package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"writ"
	"writ/supervisor/link"
)

// coordinatorAttacks lists the attacks of a compromised coordinator. The honest work uses another coordinator.
var coordinatorAttacks = []attack{
	{"coordinator", "frames", "pings, and frames of unknown types", frames},
	{"coordinator", "big", "unsigned submissions of the size of a frame", asking(bigRequest)},
	{"coordinator", "repeats", "one submission that was accepted, again and again", repeats},
	{"coordinator", "lists", "every list, and the values and logs of runs", asking(listRequest)},
	{"coordinator", "previews", "previews of plans with 2,000 calls, for the honest project", asking(previewRequest)},
	{"coordinator", "rosters", "known rosters, and unsigned ones", asking(rosterRequest)},
	{"coordinator", "statements", "unsigned statements", asking(statementRequest)},
	{"coordinator", "deaf", "requests without reading the answers or the events", deaf},
	{"coordinator", "forgets", "the link cut as soon as it is open, and all events requested again", forgets},
	{"coordinator", "future", "events acknowledged that never were", future},
}

// hub is the attacker's coordinator. Between attacks it only receives events.
type hub struct {
	a *attacker

	mu     sync.Mutex
	manner manner
	conns  map[*websocket.Conn]bool
	acked  int64
	at     time.Time
	news   chan struct{} // closed and replaced for each new session
}

// manner holds the malicious behaviours of the hub.
type manner struct {
	deaf   bool // does not read
	forget bool // claims to have no events and closes the link at once
	future bool // claims events that never existed
}

// listen starts the hub, which waits for its supervisor.
func listen(a *attacker) (*hub, error) {
	h := &hub{a: a, conns: map[*websocket.Conn]bool{}, news: make(chan struct{})}
	l, err := net.Listen("tcp", a.Listen)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc(link.Path, h.serve)
	go func() { _ = http.Serve(l, mux) }()
	return h, nil
}

// frame holds the relevant fields of a link frame.
type frame struct {
	Type    string          `json:"type"`
	Nonce   []byte          `json:"nonce,omitempty"`
	Welcome *link.Welcome   `json:"welcome,omitempty"`
	ID      string          `json:"id,omitempty"`
	Verb    link.Verb       `json:"verb,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	OK      bool            `json:"ok,omitempty"`
	Error   *struct {
		Code writ.Code `json:"code"`
	} `json:"error,omitempty"`
	Events []struct {
		Seq  int64     `json:"seq"`
		Time time.Time `json:"time"`
	} `json:"events,omitempty"`
	Seq int64 `json:"seq,omitempty"`
}

func write(ctx context.Context, c *websocket.Conn, f frame) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return c.Write(ctx, websocket.MessageText, text)
}

func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(4 << 20)
	ctx := r.Context()
	if write(ctx, c, frame{Type: "challenge", Nonce: make([]byte, 32)}) != nil {
		return
	}
	if _, _, err := c.Read(ctx); err != nil { // hello of the supervisor
		return
	}
	h.mu.Lock()
	how := h.manner
	welcome := &link.Welcome{Session: "hostile", Roster: 1, Ack: h.acked, At: h.at}
	h.mu.Unlock()
	switch {
	case how.forget:
		welcome.Ack, welcome.At = 0, time.Time{}
	case how.future:
		welcome.Ack, welcome.At = h.acked+1_000_000, time.Now()
	}
	if write(ctx, c, frame{Type: "welcome", Welcome: welcome}) != nil {
		return
	}
	h.a.count("linked", 1)
	h.enter(c)
	defer h.leave(c)
	for {
		if h.is().deaf {
			sleep(ctx, 100*time.Millisecond)
			continue
		}
		if how.forget {
			_, _, _ = c.Read(ctx) // some of its events
			return
		}
		if !h.hear(ctx, c) {
			return
		}
	}
}

func (h *hub) is() manner {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.manner
}

func (h *hub) enter(c *websocket.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns[c] = true
	close(h.news)
	h.news = make(chan struct{})
}

func (h *hub) leave(c *websocket.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}

// hear handles one frame.
func (h *hub) hear(ctx context.Context, c *websocket.Conn) bool {
	_, text, err := c.Read(ctx)
	if err != nil {
		return false
	}
	var f frame
	if json.Unmarshal(text, &f) != nil {
		return true
	}
	switch {
	case f.Type == "event" && len(f.Events) > 0:
		last := f.Events[len(f.Events)-1]
		h.mu.Lock()
		h.acked, h.at = last.Seq, last.Time
		h.mu.Unlock()
		return write(ctx, c, frame{Type: "ack", Seq: last.Seq}) == nil
	case f.Type == "ping":
		return write(ctx, c, frame{Type: "pong"}) == nil
	case f.Type == "res" && f.OK:
		h.a.count("done", 1)
	case f.Type == "res" && f.Error != nil:
		h.a.count(string(f.Error.Code), 1)
	}
	return true
}

// sessions calls do for each session in turn until ctx ends.
func (h *hub) sessions(ctx context.Context, do func(ctx context.Context, c *websocket.Conn)) error {
	for ctx.Err() == nil {
		h.mu.Lock()
		var c *websocket.Conn
		for one := range h.conns {
			c = one
		}
		news := h.news
		h.mu.Unlock()
		if c != nil {
			do(ctx, c)
			sleep(ctx, 10*time.Millisecond)
			continue
		}
		select {
		case <-ctx.Done():
		case <-news:
		}
	}
	return nil
}

// behave sets the behaviour of the hub until ctx ends. It affects new sessions.
func (h *hub) behave(ctx context.Context, how manner) error {
	set := func(how manner) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.manner = how
		for c := range h.conns {
			go func() { _ = c.CloseNow() }()
		}
	}
	set(how)
	<-ctx.Done()
	set(manner{})
	return nil
}

func frames(ctx context.Context, a *attacker) error {
	return a.hub.sessions(ctx, func(ctx context.Context, c *websocket.Conn) {
		for n := 0; a.pace.Wait(ctx) == nil; n++ {
			f := frame{Type: "ping"}
			if n%2 == 0 {
				f = frame{Type: "unheard-of", ID: strings.Repeat("x", 100)}
			}
			if write(ctx, c, f) != nil {
				return
			}
			a.count("sent", 1)
		}
	})
}

// asking sends requests without waiting for the responses.
func asking(next func(a *attacker, number int64) (link.Verb, any, error)) func(ctx context.Context, a *attacker) error {
	return func(ctx context.Context, a *attacker) error {
		return a.hub.sessions(ctx, func(ctx context.Context, c *websocket.Conn) {
			for a.pace.Wait(ctx) == nil {
				verb, params, err := next(a, a.number.Add(1))
				if err != nil {
					a.outcome(err)
					return
				}
				if a.ask(ctx, c, verb, params) != nil {
					return
				}
			}
		})
	}
}

func (a *attacker) ask(ctx context.Context, c *websocket.Conn, verb link.Verb, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	a.count("sent", 1)
	return write(ctx, c, frame{Type: "req", ID: writ.NewUUID(), Verb: verb, Params: raw})
}

var junk = bytes.Repeat([]byte("x"), 700<<10)

func bigRequest(*attacker, int64) (link.Verb, any, error) {
	return link.VerbSubmit, link.Submit{Signed: junk}, nil
}

func statementRequest(*attacker, int64) (link.Verb, any, error) {
	return link.VerbStatement, link.Statement{Signed: junk[:10<<10]}, nil
}

func listRequest(a *attacker, number int64) (link.Verb, any, error) {
	switch number % 6 {
	case 0:
		return link.VerbQueues, link.Queues{}, nil
	case 1:
		return link.VerbResources, link.Resources{}, nil
	case 2:
		return link.VerbNodes, link.Nodes{}, nil
	case 3:
		return link.VerbSecrets, link.Secrets{}, nil
	case 4:
		return link.VerbValues, link.Values{Run: noRun(number)}, nil
	default:
		return link.VerbLogs, link.Logs{Run: noRun(number)}, nil
	}
}

func previewRequest(a *attacker, _ int64) (link.Verb, any, error) {
	i := 0
	if a.roster.Projects[i].ID == a.project.ID {
		i = 1
	}
	raw, err := a.proposal(a.roster.Projects[i].ID)
	return link.VerbPlan, json.RawMessage(raw), err
}

func rosterRequest(a *attacker, number int64) (link.Verb, any, error) {
	if number%2 == 0 {
		return link.VerbRoster, link.Rosters{Signed: [][]byte{junk[:100<<10]}}, nil
	}
	text, err := a.roster.Text()
	return link.VerbRoster, link.Rosters{Signed: [][]byte{text}}, err
}

func repeats(ctx context.Context, a *attacker) error {
	script, _ := always(oneCall)(0)
	signed, err := a.sign(script, time.Hour, nil)
	if err != nil {
		return err
	}
	return asking(func(*attacker, int64) (link.Verb, any, error) {
		return link.VerbSubmit, link.Submit{Signed: signed}, nil
	})(ctx, a)
}

func deaf(ctx context.Context, a *attacker) error {
	go func() { _ = a.hub.behave(ctx, manner{deaf: true}) }()
	return asking(listRequest)(ctx, a)
}

func forgets(ctx context.Context, a *attacker) error { return a.hub.behave(ctx, manner{forget: true}) }

func future(ctx context.Context, a *attacker) error { return a.hub.behave(ctx, manner{future: true}) }
