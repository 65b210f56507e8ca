// Package webhook tells other programs what happens in a cluster: it sends messages to addresses that an operator has named, signed as Standard
// Webhooks describes. It knows the events of a ledger and HTTP. It must not know people who read the API, nor how events come into the ledger.
//
// Each message is sent until its receiver takes it, one after the other and in the order of events. The ledger keeps how far each
// endpoint is, so that a coordinator may end at any time: a message is told once or more, and always under the same id.
package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/identity"
	"writ/internal/hidden"
	"writ/internal/sleep"
	"writ/ledger"
)

const (
	page        = 200              // events that are read at once
	lookAgain   = time.Minute      // for what ends soon, and if the ledger is away
	answerIn    = 15 * time.Second // a receiver that needs longer is asked again
	firstPause  = time.Second      // after a message that was not taken; the next is twice as long
	longest     = 10 * time.Minute // pause, also one that the receiver asks for
	tries       = 8                // of a message that the receiver refuses; about two minutes
	rememberIDs = 4096             // of messages that were told, of an endpoint
	bodyRead    = 64 << 10         // bytes of an answer that are read, so that its connection can be used again
)

// The outcomes of a request, as metrics name them.
const (
	Taken   = "taken"    // the receiver answered with 2xx
	Again   = "again"    // it did not, and is asked again
	GivenUp = "given_up" // it refused the message again and again, or wants no more
)

// Ledger is what a sender needs of one.
type Ledger interface {
	Events(ctx context.Context, after int64, filter ledger.EventFilter, max int) (events []ledger.Event, more bool, err error)
	EventRange(ctx context.Context) (oldest, newest int64, err error)
	Nodes(ctx context.Context, filter ledger.NodeFilter, page ledger.Page) (ledger.List[writ.Node], error)
	WebhookAt(ctx context.Context, name string) (*ledger.WebhookPlace, error)
	SetWebhookAt(ctx context.Context, name string, at ledger.WebhookPlace) error
}

// Sender sends the messages of all endpoints. Fill in its fields, then call Run. All fields are required.
type Sender struct {
	Endpoints      []Endpoint
	Ledger         Ledger
	News           func() <-chan struct{} // closed when there are events after the call
	Ends           func() []identity.Expiry
	DatacenterName func(id writ.DatacenterID) string
	ProjectName    func(id writ.ProjectID) string
	PublicURL      string // of the dashboard
	Version        string // of this program
	Now            func() time.Time
	Log            *slog.Logger
	Tried          func(endpoint, outcome string) // called after each request

	pauseForTest func(n int) time.Duration
}

// Run sends until ctx ends, and returns nil then.
func (s *Sender) Run(ctx context.Context) error {
	client := newClient()
	defer client.CloseIdleConnections()
	group, ctx := errgroup.WithContext(ctx)
	for i := range s.Endpoints {
		c := &course{s: s, to: &s.Endpoints[i], client: client, told: map[string]bool{}}
		group.Go(func() error { c.run(ctx); return nil })
	}
	return group.Wait()
}

// SendTest sends a message of the type test to an endpoint, once.
func (s *Sender) SendTest(ctx context.Context, to *Endpoint) error {
	now := s.Now()
	return s.Send(ctx, to, newMessage(Test, now, struct{}{}, moment(now)))
}

// Send sends a message to an endpoint, once.
func (s *Sender) Send(ctx context.Context, to *Endpoint, m *Message) error {
	client := newClient()
	defer client.CloseIdleConnections()
	c := &course{s: s, to: to, client: client}
	_, err := c.post(ctx, m)
	return err
}

// newClient follows no redirection: what an operator has named is where messages go.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &http.Client{
		Transport:     transport,
		Timeout:       answerIn,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// course is what one endpoint gets, one message after the other.
type course struct {
	s      *Sender
	to     *Endpoint
	client *http.Client
	at     ledger.WebhookPlace
	told   map[string]bool // ids of messages that were taken or given up
	order  []string        // of told, oldest first
}

// errGone is that the receiver wants no more messages.
var errGone = errors.New("the receiver answers 410 Gone: it wants no more messages")

// run sends until ctx ends or the receiver wants no more.
func (c *course) run(ctx context.Context) {
	begun := false
	defer func() {
		if begun { // also behind events that are not for it: they may be forgotten before the next start
			_ = c.keep(ctx) // a crash has the same effect
		}
	}()
	for ctx.Err() == nil {
		news := c.s.News() // first: what comes meanwhile is found the next time
		var err error
		if !begun {
			err = c.begin(ctx)
			begun = err == nil
		}
		more := false
		if begun {
			more, err = c.step(ctx)
		}
		switch {
		case errors.Is(err, errGone):
			c.s.Log.ErrorContext(ctx, "a webhook gets nothing more until the coordinator is started again", "webhook", c.to.Name, "host", c.to.host(), "err", err)
			return
		case err != nil && ctx.Err() == nil:
			c.s.Log.WarnContext(ctx, "read the events for a webhook; trying again", "webhook", c.to.Name, "err", err, "retry_in", lookAgain)
		case more:
			continue
		}
		wait(ctx, news, lookAgain)
	}
}

// wait waits for news, a time at most.
func wait(ctx context.Context, news <-chan struct{}, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-news:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// begin finds where the endpoint is. A new one begins with what happens from now on, as does one whose events are gone.
func (c *course) begin(ctx context.Context) error {
	oldest, newest, err := c.s.Ledger.EventRange(ctx)
	if err != nil {
		return err
	}
	at, err := c.s.Ledger.WebhookAt(ctx, c.to.Name)
	switch {
	case err != nil:
		return err
	case at != nil && at.Event >= oldest-1 && at.Event <= newest:
		c.at = *at
	case at != nil && at.Event < oldest-1:
		c.s.Log.WarnContext(ctx, "a webhook missed events that the ledger has forgotten", "webhook", c.to.Name, "events", oldest-1-at.Event)
		c.at = ledger.WebhookPlace{Event: oldest - 1, Lost: at.Lost}
	default:
		c.at.Event = newest
		if c.at.Lost, err = c.lostNow(ctx); err != nil {
			return err
		}
	}
	if c.at.Lost == nil {
		c.at.Lost = map[string]time.Time{}
	}
	return c.keep(ctx)
}

// keep records where the endpoint is, also when ctx has ended: what was taken is not to be sent again.
func (c *course) keep(ctx context.Context) error {
	return c.s.Ledger.SetWebhookAt(context.WithoutCancel(ctx), c.to.Name, c.at)
}

// lostNow returns the nodes that are lost, so that it is told when they are back.
func (c *course) lostNow(ctx context.Context) (map[string]time.Time, error) {
	lost := map[string]time.Time{}
	for cursor := ""; ; {
		list, err := c.s.Ledger.Nodes(ctx, ledger.NodeFilter{}, ledger.Page{Cursor: cursor})
		if err != nil {
			return nil, err
		}
		for _, n := range list.Items {
			if n.Liveness == writ.LivenessLost {
				lost[nodeKey(n.Datacenter, n.ID)] = n.LastBeat
			}
		}
		if cursor = list.Next; cursor == "" {
			return lost, nil
		}
	}
}

// step tells what ends soon and the next events, and reports whether there may be more.
func (c *course) step(ctx context.Context) (more bool, err error) {
	for _, m := range expiries(c.s.Ends(), c.s.Now()) {
		if err := c.tell(ctx, m); err != nil {
			return false, err
		}
	}
	_, newest, err := c.s.Ledger.EventRange(ctx) // first: what comes meanwhile is found the next time
	if err != nil {
		return false, err
	}
	events, more, err := c.s.Ledger.Events(ctx, c.at.Event, ledger.EventFilter{Topics: []string{ledger.TopicSubmission, "run", "node"}}, page)
	if err != nil {
		return false, err
	}
	for i := range events {
		m := c.s.messageOf(&events[i], c.at.Lost)
		if m != nil {
			if err := c.tell(ctx, m); err != nil {
				return false, err
			}
		}
		c.pass(&events[i])
		if m == nil && i < len(events)-1 {
			continue // it is enough to keep places where something was told
		}
		if err := c.keep(ctx); err != nil {
			return false, err
		}
	}
	if more {
		return true, nil
	}
	c.at.Event = max(c.at.Event, newest) // or all others behind the last one would be looked at again each time
	return false, nil
}

// pass moves the place behind an event.
func (c *course) pass(e *ledger.Event) {
	c.at.Event = e.ID
	if e.Node == nil {
		return
	}
	switch key := nodeKey(e.Datacenter, e.Node.ID); {
	case isLost(e.Node):
		c.at.Lost[key] = e.Node.LastBeat
	case e.Node.Liveness == writ.LivenessReady || !isServing(e.Node):
		delete(c.at.Lost, key)
	}
}

// tell sends a message until it is taken or given up, unless the endpoint does not want it or has it. It returns an error if ctx ends before that, or if
// the receiver wants no more.
func (c *course) tell(ctx context.Context, m *Message) error {
	if !c.to.wants(m) || c.told[m.ID] {
		return nil
	}
	refused := 0
	for n := 1; ; n++ {
		pause, err := c.post(ctx, m)
		_, no := errors.AsType[*refusal](err)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			c.s.Tried(c.to.Name, Taken)
			c.remember(m.ID)
			return nil
		case errors.Is(err, errGone):
			c.s.Tried(c.to.Name, GivenUp)
			return err
		case no:
			refused++
		}
		if refused == tries {
			c.s.Tried(c.to.Name, GivenUp)
			c.s.Log.ErrorContext(ctx, "a webhook does not get a message, because its receiver refuses it again and again",
				"webhook", c.to.Name, "host", c.to.host(), "type", m.Type, "message", m.ID, "err", err)
			c.remember(m.ID)
			return nil
		}
		c.s.Tried(c.to.Name, Again)
		pause = max(pause, c.s.pause(n))
		if n == 1 || pause >= longest {
			c.s.Log.WarnContext(ctx, "send to a webhook; trying again", "webhook", c.to.Name, "host", c.to.host(), "type", m.Type, "message", m.ID, "err", err, "retry_in", pause)
		}
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
	}
}

// pause is how long to wait after the n-th request: twice as long each time, up to a bound, less a random part of a quarter.
func (s *Sender) pause(n int) time.Duration {
	if s.pauseForTest != nil {
		return s.pauseForTest(n)
	}
	d := min(firstPause<<min(n-1, 20), longest)
	return d - rand.N(d/4)
}

// remember keeps that a message is done with.
func (c *course) remember(id string) {
	c.told[id] = true
	c.order = append(c.order, id)
	if len(c.order) > rememberIDs {
		delete(c.told, c.order[0])
		c.order = c.order[1:]
	}
}

// refusal is an answer that says that the message itself is wrong. To wait does not help then.
type refusal struct{ status string }

func (r *refusal) Error() string { return "the receiver answers " + r.status }

// post sends a message once. It returns how long the receiver asks to wait, 0 if it does not.
func (c *course) post(ctx context.Context, m *Message) (pause time.Duration, err error) {
	body, err := json.Marshal(m)
	if err != nil {
		return 0, fmt.Errorf("encode a message: %w", err)
	}
	body = hidden.EscapeJSON(body) // receivers show messages to people
	at := c.s.Now()
	signature, err := c.to.sign(m.ID, at, body)
	if err != nil {
		return 0, fmt.Errorf("sign a message: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.to.URL, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("address a message: %w", err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "writ/" + c.s.Version,
		"webhook-id": m.ID, "webhook-timestamp": strconv.FormatInt(at.Unix(), 10), "webhook-signature": signature,
	} {
		request.Header.Set(name, value)
	}
	answer, err := c.client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("reach the receiver: %w", withoutURL(err))
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, bodyRead)
	return retryAfter(answer.Header), outcome(answer)
}

// withoutURL takes the address out of an error of a client: its path may be a secret.
func withoutURL(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}

// outcome is what an answer means: nil if the message was taken.
func outcome(answer *http.Response) error {
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusGone:
		return errGone
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return fmt.Errorf("the receiver answers %s", answer.Status)
	default:
		return &refusal{answer.Status}
	}
}

// retryAfter is how long the receiver asks to wait, in seconds.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(min(n, 86400))*time.Second, longest)
}
