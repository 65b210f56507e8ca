package runner

import (
	"context"
	"fmt"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/identity/secret"
	"writ/supervisor/nodes"
)

// login knows a node's account at the queue, and asks the supervisor for it when it does not, or when the queue refuses it. The
// password is in memory only.
type login struct {
	member *Member
	api    nodes.Backend
	sem    chan struct{} // holds one token: one question at a time

	known          bool
	name, password string
	next           time.Time // when the node API may be asked again
}

// Login returns what a node says when it connects to its queue. It has an empty name if the queue has no accounts. A question that
// comes too early waits: whoever is refused must not hammer at either. A node that was removed asks no more, so that its end waits for none
// of its connections.
func (m *Member) Login(api nodes.Backend) func(ctx context.Context, refused bool) (name, password string, err error) {
	l := &login{member: m, api: api, sem: make(chan struct{}, 1)}
	return l.get
}

func (l *login) get(ctx context.Context, refused bool) (name, password string, err error) {
	select {
	case l.sem <- struct{}{}:
		defer func() { <-l.sem }()
	case <-ctx.Done():
		return "", "", context.Cause(ctx)
	}
	if l.known && !refused {
		return l.name, l.password, nil
	}
	wait := time.NewTimer(time.Until(l.next))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-l.member.gone:
		return "", "", l.member.rejected()
	case <-ctx.Done():
		return "", "", context.Cause(ctx)
	}
	if left(l.member.Admission()) { // a timer may have come at the same moment, or the node was removed in an earlier life
		return "", "", l.member.rejected()
	}
	l.next = time.Now().Add(retryAfter)
	name, password, err = l.ask(ctx)
	if err != nil {
		l.known = false
		if writ.CodeOf(err) == writ.CodeNodeRejected { // it is not signed
			l.member.askAgain()
		}
		if !writ.AsError(err).Retryable() {
			l.next = time.Now().Add(askEvery)
		}
		return "", "", fmt.Errorf("ask for the node's account: %w", err)
	}
	l.known, l.name, l.password = true, name, password
	l.member.open.Store(name == "")
	return name, password, nil
}

func (l *login) ask(ctx context.Context) (name, password string, err error) {
	m := l.member
	asked, err := envelope.Sign(envelope.AccountRequest, m.key, nodes.AccountRequest{Node: m.Node(), Scripts: nodes.ScriptsLoaded})
	if err != nil {
		return "", "", err
	}
	signed, err := l.api.Account(ctx, m.Node(), asked)
	if err != nil {
		return "", "", err
	}
	records, _, err := envelope.Open[nodes.Account](envelope.Account, signed, m.supervisorKey)
	if err != nil {
		return "", "", err
	}
	if len(records) != 1 || records[0].Node != m.Node() {
		return "", "", writ.Errorf(writ.CodeInternal, "the supervisor answered with the account of another node")
	}
	account := records[0]
	if account.User == "" {
		return "", "", nil
	}
	state := m.state()
	password, err = secret.Open(account.Secret, secret.AccountLabel(state.Cluster, state.Datacenter, state.Node), m.age)
	return account.User, password, err
}
