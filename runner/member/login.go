package member

import (
	"context"
	"fmt"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/identity/secret"
	"writ/supervisor/nodes"
)

// loginPause is the minimum interval between requests for the account.
const loginPause = time.Second

// login caches a node's account at the queue. It asks the supervisor for the account if the account is unknown or the
// queue refused it. The password is held in memory only.
type login struct {
	member *Member
	api    nodes.Backend
	sem    chan struct{} // holds one token: one request at a time

	known          bool
	name, password string
	next           time.Time // earliest time of the next request
}

// Login returns a function that supplies the credentials for connecting to the queue. The name is empty if the queue
// has no accounts. Requests are rate-limited, so that a refused node does not overload the queue and the supervisor.
// After a removal the function fails immediately, so that shutdown does not wait for connections.
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
	case <-l.member.removal.gone:
		return "", "", l.member.Rejected()
	case <-ctx.Done():
		return "", "", context.Cause(ctx)
	}
	// The timer may have fired at the moment of the removal, or the node was removed in an earlier incarnation.
	if Left(l.member.Admission()) {
		return "", "", l.member.Rejected()
	}
	l.next = time.Now().Add(loginPause)
	name, password, err = l.ask(ctx)
	if err != nil {
		l.known = false
		if writ.CodeOf(err) == writ.CodeNodeRejected { // the error is not signed, so it only triggers a check
			l.member.removal.askAgain()
		}
		if !writ.AsError(err).Retryable() {
			l.next = time.Now().Add(AskEvery)
		}
		return "", "", fmt.Errorf("request the node's account: %w", err)
	}
	l.known, l.name, l.password = true, name, password
	l.member.removal.open.Store(name == "")
	return name, password, nil
}

func (l *login) ask(ctx context.Context) (name, password string, err error) {
	m := l.member
	asked, err := envelope.Sign(envelope.AccountRequest, m.key,
		nodes.AccountRequest{Node: m.Node(), Scripts: nodes.ScriptsLoaded})
	if err != nil {
		return "", "", err
	}
	signed, err := l.api.Account(ctx, m.Node(), asked)
	if err != nil {
		return "", "", err
	}
	records, _, err := envelope.Open[nodes.Account](envelope.Account, signed, m.SupervisorKey)
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
	state := m.State()
	password, err = secret.Open(account.Secret, secret.AccountLabel(state.Cluster, state.Datacenter, state.Node), m.age)
	return account.User, password, err
}
