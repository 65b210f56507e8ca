package admission

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/identity/secret"
	"writ/internal/failpoint"
	"writ/internal/wake"
	"writ/runner/queue"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/misuse"
	"writ/supervisor/nodes"
	"writ/supervisor/ratelog"
)

const (
	// accountsInterval is the time between two checks for changed nodes or a restarted queue. A restarted Redis has lost
	// the accounts.
	accountsInterval = time.Second
	// applyInterval is the time between two updates of all accounts if neither the nodes nor the queue have changed. For
	// more than a hundred nodes it is longer, up to applySeldom: an update takes 100 µs of CPU for each node.
	applyInterval = 3 * time.Second
	applySeldom   = 30 * time.Second
	// applyWithin limits the duration of one update.
	applyWithin = 5 * time.Second
)

// AccountsConfig holds the dependencies of Accounts.
type AccountsConfig struct {
	Queue      queue.Accounts // nil if the queue has no accounts
	Datacenter writ.DatacenterID
	Cluster    writ.ClusterID
	Key        ed25519.PrivateKey
	Fleet      *fleet.Fleet
	Misuse     *misuse.Counter // nil without Queue
	Warnings   *ratelog.Log
	Now        func() time.Time // wall clock
	Log        *slog.Logger
}

// Accounts maintains a queue account for every approved node, and suspends the accounts of nodes that misuse the queue.
// The passwords are random, generated at supervisor start and held in memory only. After a supervisor restart, existing
// connections stay open, and a node that needs a new connection requests its account from the node API again.
type Accounts struct {
	AccountsConfig
	wake wake.Signal

	mu        sync.Mutex // serializes updates; guards the fields below
	passwords map[writ.NodeID]string
	suspended map[writ.NodeID]*suspension
	surveyed  bool                   // the first survey has ended
	signed    map[writ.NodeID][]byte // signed answers of the node API
	looked    map[writ.NodeID]bool   // serving nodes at the last successful update; nil before the first success
	applied   applied                // last successful update
	lacking   bool                   // the queue does not support accounts
	failing   bool                   // the failure of the queue was logged
}

// applied describes an update of the accounts.
type applied struct {
	at       time.Time // by the monotonic clock
	instance string    // instance of the queue before the update
	accounts map[writ.NodeID]string
}

// NewAccounts returns accounts that Run applies to the queue.
func NewAccounts(config AccountsConfig) *Accounts {
	return &Accounts{
		AccountsConfig: config, wake: wake.New(), passwords: make(map[writ.NodeID]string),
		signed:    make(map[writ.NodeID][]byte),
		suspended: make(map[writ.NodeID]*suspension),
	}
}

// Refresh triggers an immediate update. It is called when the set of approved nodes changes.
func (a *Accounts) Refresh() {
	a.wake.Raise()
}

// Run creates and removes accounts until ctx ends.
func (a *Accounts) Run(ctx context.Context) error {
	if a.Queue == nil {
		return nil
	}
	tick := time.NewTicker(accountsInterval)
	defer tick.Stop()
	for {
		a.mu.Lock()
		a.endSuspensions(time.Now())
		_ = a.refresh(ctx) // logged and retried
		a.suspendMisuse(ctx)
		a.survey(ctx)
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-a.wake:
		case <-a.Misuse.Exceeded():
		}
	}
}

// refresh calls apply if the nodes or the queue have changed since the last update, if that update failed, or after
// the interval for its number of nodes. The caller holds mu.
func (a *Accounts) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, applyWithin)
	defer cancel()
	instance, err := a.Queue.Instance(ctx)
	_, all := a.accounts()
	if err == nil && !a.failing && !a.lacking && time.Since(a.applied.at) < intervalFor(len(all)) && instance == a.applied.instance &&
		maps.Equal(all, a.applied.accounts) {
		return nil
	}
	if err := a.apply(ctx); err != nil {
		return err
	}
	a.applied.at, a.applied.instance = time.Now(), instance
	return nil
}

// intervalFor returns the time between two updates of the accounts of n nodes.
func intervalFor(n int) time.Duration {
	return max(applyInterval, min(applyInterval*time.Duration(n)/100, applySeldom))
}

// accounts returns the serving nodes, and the passwords of the serving nodes that are not suspended. It makes missing
// passwords, and deletes the passwords of other nodes. The caller holds mu.
func (a *Accounts) accounts() (serving map[writ.NodeID]bool, all map[writ.NodeID]string) {
	serving = make(map[writ.NodeID]bool)
	for _, node := range a.Fleet.Members.Serving() {
		serving[node] = true
		if a.passwords[node] == "" {
			a.passwords[node] = newPassword()
		}
	}
	for node := range a.passwords {
		if !serving[node] {
			delete(a.passwords, node)
			delete(a.signed, node)
		}
	}
	all = make(map[writ.NodeID]string, len(a.passwords))
	for node, password := range a.passwords {
		if s := a.suspended[node]; s == nil || !s.off {
			all[node] = password
		}
	}
	return serving, all
}

// apply gives each approved node its queue account, unless the node is suspended, and removes all other accounts. It is
// not an error if the queue does not support accounts. The caller holds mu.
func (a *Accounts) apply(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, applyWithin)
	defer cancel()
	serving, all := a.accounts()
	err := a.Queue.Apply(failpoint.At(ctx, failpoint.AccountsApplied), all)
	lacking := errors.Is(err, errors.ErrUnsupported)
	switch {
	case err != nil && !lacking:
		if !a.failing && ctx.Err() == nil {
			a.Log.Warn("apply the queue accounts of nodes; trying again", "err", err)
		}
		a.failing = true
		return err
	case lacking && (!a.lacking || a.looked == nil):
		a.Log.Warn("NODES SHARE ONE LOGIN AT THE QUEUE: each can read and remove the jobs and messages of others", "err", err)
	case !lacking && (a.lacking || a.looked == nil):
		a.Log.Info("each node has its own queue account", "nodes", len(serving))
	}
	if a.lacking != lacking {
		clear(a.signed)
	}
	a.looked, a.lacking, a.failing, a.applied.accounts = serving, lacking, false, all
	return nil
}

// Of returns the signed account of node n: user name and encrypted password. asked is the node's signed request. The
// error is the reason for the suspension if the node is suspended.
func (a *Accounts) Of(ctx context.Context, n *journal.Node, asked []byte) ([]byte, error) {
	if err := verifyRequest(n, asked); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.suspended[n.ID]; s != nil && s.off {
		return nil, writ.Errorf(s.why.Code, "the node %s is kept off the queue: %s", n.Name, s.why.Message).
			WithHint("the account is available again in %s; `writ node show %s` shows the reason",
				max(time.Until(s.until), 0).Round(time.Second),
				n.Name)
	}
	if a.Queue != nil && !a.looked[n.ID] {
		if err := a.apply(ctx); err != nil {
			return nil, err
		}
	}
	if signed := a.signed[n.ID]; signed != nil {
		return signed, nil
	}
	account := nodes.Account{Node: n.ID}
	if password := a.passwords[n.ID]; password != "" && !a.lacking {
		reader, err := secret.ForNode(n.AgeKey)
		if err != nil {
			return nil, err
		}
		account.User = a.Queue.User(n.ID)
		if account.Secret, err = secret.Encrypt(password, secret.AccountLabel(a.Cluster, a.Datacenter, n.ID), reader); err !=
			nil {
			return nil, err
		}
	}
	signed, err := envelope.Sign(envelope.Account, a.Key, account)
	if err == nil {
		a.signed[n.ID] = signed
	}
	return signed, err
}

// verifyRequest verifies that a node signed the request for its account.
func verifyRequest(n *journal.Node, asked []byte) error {
	requests, _, err := envelope.Open[nodes.AccountRequest](envelope.AccountRequest, asked, envelope.Only(n.PublicKey))
	if err == nil && (len(requests) != 1 || requests[0].Node != n.ID) {
		err = writ.Errorf(writ.CodeBadRequest, "the request is for the account of another node")
	}
	return err
}

// newPassword returns 256 random bits in base64.
func newPassword() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
