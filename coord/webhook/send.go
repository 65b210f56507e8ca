// Package webhook notifies other programs of events in a cluster: it sends messages, signed as in Standard Webhooks, to
// endpoints that an operator has configured. It depends on the events of a ledger and on HTTP. It must not depend on
// the readers of the API, or on the way events get into the ledger.
//
// The messages of an endpoint are sent one after the other, in the order of events, each until its receiver accepts it.
// The ledger stores the position of each endpoint, so a coordinator may stop at any time: each message is delivered at
// least once, always with the same id.
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
	"writ/identity/expiring"
	"writ/internal/hidden"
	"writ/internal/outbound"
	"writ/internal/sleep"
	"writ/ledger"
)

const (
	page        = 200              // events per read
	lookAgain   = time.Minute      // interval of checks for expiring items and of retries while the ledger is unavailable
	answerIn    = 15 * time.Second // limit of a request; a slower receiver gets the message again
	firstPause  = time.Second      // after a failed request; doubles each time
	longest     = 10 * time.Minute // longest pause, including one that the receiver requests
	tries       = 8                // requests for a message that the receiver refuses; about two minutes
	rememberIDs = 4096             // remembered finished messages per endpoint
	bodyRead    = 64 << 10         // bytes of a response that are read, so that its connection can be reused
)

// The outcomes of a request, as in the metrics.
const (
	Taken   = "taken"    // the receiver answered with 2xx
	Again   = "again"    // the request failed, and the message is sent again
	GivenUp = "given_up" // the receiver refused the message too often, or answered 410 Gone
)

// Ledger is the part of ledger.Ledger that a Sender needs.
type Ledger interface {
	Events(
		ctx context.Context, after int64, filter ledger.EventFilter, max int,
	) (events []ledger.Event, more bool, err error)
	EventRange(ctx context.Context) (oldest, newest int64, err error)
	Nodes(ctx context.Context, filter ledger.NodeFilter, page ledger.Page) (ledger.List[writ.Node], error)
	WebhookAt(ctx context.Context, name string) (*ledger.WebhookPlace, error)
	SetWebhookAt(ctx context.Context, name string, at ledger.WebhookPlace) error
}

// Sender sends the messages of all endpoints. Set its fields, then call Run. All fields are required.
type Sender struct {
	Endpoints      []Endpoint
	Ledger         Ledger
	News           func() <-chan struct{} // returns a channel that is closed when there are new events
	Ends           func() []expiring.Item // lists the items that expire
	DatacenterName func(id writ.DatacenterID) string
	ProjectName    func(id writ.ProjectID) string
	PublicURL      string // URL of the dashboard
	Version        string // version of this program
	Now            func() time.Time
	Log            *slog.Logger
	Tried          func(endpoint, outcome string) // called after each request

	pauseForTest func(n int) time.Duration
}

// Run sends messages until ctx ends, and then returns nil.
func (s *Sender) Run(ctx context.Context) error {
	client := newClient()
	defer client.CloseIdleConnections()
	group, ctx := errgroup.WithContext(ctx)
	for i := range s.Endpoints {
		c := &course{s: s, to: &s.Endpoints[i], client: client, done: map[string]bool{}}
		group.Go(func() error { c.run(ctx); return nil })
	}
	return group.Wait()
}

// SendTest sends one message of type test to an endpoint.
func (s *Sender) SendTest(ctx context.Context, to *Endpoint) error {
	now := s.Now()
	return s.Send(ctx, to, newMessage(Test, now, struct{}{}, moment(now)))
}

// Send sends a message to an endpoint, without retries.
func (s *Sender) Send(ctx context.Context, to *Endpoint, m *Message) error {
	client := newClient()
	defer client.CloseIdleConnections()
	c := &course{s: s, to: to, client: client}
	_, err := c.post(ctx, m)
	return err
}

// newClient returns a client without redirects: messages go only to addresses that an operator has configured.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &http.Client{
		Transport:     outbound.Final(transport),
		Timeout:       answerIn,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// course sends the messages of one endpoint, one after the other.
type course struct {
	s      *Sender
	to     *Endpoint
	client *http.Client
	at     ledger.WebhookPlace
	done   map[string]bool // ids of messages that were accepted or given up
	order  []string        // keys of done, oldest first
}

// errGone is returned if the receiver wants no more messages.
var errGone = errors.New("the receiver answers 410 Gone: it wants no more messages")

// run sends messages until ctx ends or the receiver answers 410 Gone.
func (c *course) run(ctx context.Context) {
	begun := false
	defer func() {
		if begun { // stores a position past skipped events: if these are pruned, the next start must not report a loss
			_ = c.keep(ctx) // an error has the same effect as a crash
		}
	}()
	for ctx.Err() == nil {
		news := c.s.News() // before the read, so that rows stored during it are found next time
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
			c.s.Log.ErrorContext(ctx, "webhook stopped until the coordinator restarts", "webhook", c.to.Name,
				"host", c.to.host(), "err", err)
			return
		case err != nil && ctx.Err() == nil:
			c.s.Log.WarnContext(ctx, "read the events for a webhook; trying again", "webhook", c.to.Name, "err", err,
				"retry_in", lookAgain)
		case more:
			continue
		}
		wait(ctx, news, lookAgain)
	}
}

// wait waits for news, at most for the given time.
func wait(ctx context.Context, news <-chan struct{}, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-news:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// begin loads the position of the endpoint. If the next events of the endpoint were pruned, it starts with the oldest
// event. A new endpoint, or an endpoint whose position is after the newest event, starts with future events.
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
		c.s.Log.WarnContext(ctx, "a webhook missed events that the ledger has pruned", "webhook", c.to.Name,
			"events", oldest-1-at.Event)
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

// keep stores the position of the endpoint, even if ctx has ended, so that accepted messages are not sent again.
func (c *course) keep(ctx context.Context) error {
	return c.s.Ledger.SetWebhookAt(context.WithoutCancel(ctx), c.to.Name, c.at)
}

// lostNow returns the last heartbeat of each lost node by nodeKey, so that a message reports when the node is back.
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

// step sends the messages about expiring items and about the next events, and reports whether there may be more.
func (c *course) step(ctx context.Context) (more bool, err error) {
	for _, m := range expiries(c.s.Ends(), c.s.Now()) {
		if err := c.send(ctx, m); err != nil {
			return false, err
		}
	}
	_, newest, err := c.s.Ledger.EventRange(ctx) // before the read, so that rows stored during it are found next time
	if err != nil {
		return false, err
	}
	events, more, err := c.s.Ledger.Events(ctx, c.at.Event,
		ledger.EventFilter{Topics: []string{ledger.TopicSubmission, "run", "node"}}, page)
	if err != nil {
		return false, err
	}
	for i := range events {
		m := c.s.messageOf(&events[i], c.at.Lost)
		if m != nil {
			if err := c.send(ctx, m); err != nil {
				return false, err
			}
		}
		c.pass(&events[i])
		if m == nil && i < len(events)-1 {
			continue // a position is stored only after a message
		}
		if err := c.keep(ctx); err != nil {
			return false, err
		}
	}
	if more {
		return true, nil
	}
	c.at.Event = max(c.at.Event, newest) // otherwise skipped events at the end would be read again each time
	return false, nil
}

// pass advances the position past an event, and updates the lost nodes.
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

// send posts a message until the receiver accepts it or has refused it `tries` times. Other errors are retried without
// limit. send skips messages that the endpoint does not want or that are finished. It returns an error if ctx ends, or
// if the receiver answers 410 Gone.
func (c *course) send(ctx context.Context, m *Message) error {
	if !c.to.wants(m) || c.done[m.ID] {
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
			c.s.Log.ErrorContext(ctx, "webhook message given up, because its receiver refuses it repeatedly",
				"webhook", c.to.Name, "host", c.to.host(), "type", m.Type, "message", m.ID, "err", err)
			c.remember(m.ID)
			return nil
		}
		c.s.Tried(c.to.Name, Again)
		pause = max(pause, c.s.pause(n))
		if n == 1 || pause >= longest {
			c.s.Log.WarnContext(ctx, "send to a webhook; trying again", "webhook", c.to.Name, "host", c.to.host(),
				"type", m.Type, "message", m.ID, "err", err, "retry_in", pause)
		}
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
	}
}

// pause returns the pause after the n-th request: it doubles each time up to a limit, minus a random part of up to a
// quarter.
func (s *Sender) pause(n int) time.Duration {
	if s.pauseForTest != nil {
		return s.pauseForTest(n)
	}
	d := min(firstPause<<min(n-1, 20), longest)
	return d - rand.N(d/4)
}

// remember records that a message is finished.
func (c *course) remember(id string) {
	c.done[id] = true
	c.order = append(c.order, id)
	if len(c.order) > rememberIDs {
		delete(c.done, c.order[0])
		c.order = c.order[1:]
	}
}

// refusal is a response that rejects the message itself, so waiting does not help.
type refusal struct{ status string }

func (r *refusal) Error() string { return "the receiver answers " + r.status }

// post sends a message once. pause is the time that the receiver requests before the next attempt, or 0.
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

// withoutURL removes the address from an error of a client: its path may be a secret.
func withoutURL(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}

// outcome returns the meaning of a response: nil if the message was accepted.
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

// retryAfter returns the pause that the receiver requests with the header Retry-After in seconds, at most longest.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(min(n, 86400))*time.Second, longest)
}
