package runner

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/nodes"
)

// askEvery is how often a node asks for what it waits for: a supervisor's door that does not answer, or its approval.
const askEvery = 5 * time.Second

// Joining is what a host needs to become a node.
type Joining struct {
	Dir     string         // the data directory; keys and membership are kept there
	Door    nodes.Backend  // of the datacenter's supervisor
	Token   string         // "writ1.…"; without one the node is pending until an approve statement
	Cluster writ.ClusterID // needed only without a token: what the node believes in; a token names it
	Name    string         // what the node wants to be called; see writ.ValidName
	Version string         // of the program, for people
	Log     *slog.Logger   // nothing is logged if nil
}

// Join makes the host a member of a datacenter, or returns what it already is: it can be called at every start. The supervisor
// proves itself first, up to the cluster's root, before anything that the token made is sent. Join waits for a door that does not
// answer. The admission of the member may still be pending; Runner.Run waits for it.
func Join(ctx context.Context, j Joining) (*Member, error) {
	pin, token, err := j.pin()
	if err != nil {
		return nil, err
	}
	m, err := openMember(j.Dir)
	if err != nil {
		return nil, err
	}
	m.token, m.version = token, j.Version
	if m.Node() != "" {
		if pin != "" && pin != m.record.Cluster {
			return nil, writ.Errorf(writ.CodeConflict, "%s belongs to a node of another cluster", j.Dir).
				WithHint("use another --data for this one")
		}
		return m, nil
	}
	switch {
	case pin == "":
		return nil, writ.Errorf(writ.CodeUsage, "the node does not know which cluster to believe in").
			WithHint("give it a token (`writ token create`), or the cluster's id and approve it with `writ node approve`")
	case !writ.ValidName(j.Name):
		return nil, writ.Errorf(writ.CodeUsage, "%q cannot be the name of a node", j.Name).
			WithHint("use 1 to 63 lower-case letters, digits and hyphens")
	}
	m.record.Cluster, m.record.Name = pin, j.Name
	log := cmp.Or(j.Log, slog.New(slog.DiscardHandler))
	for told := false; ; {
		err := m.ask(ctx, j.Door)
		if err == nil {
			return m, nil
		}
		if !writ.AsError(err).Retryable() {
			return nil, err
		}
		if !told {
			told = true
			log.WarnContext(ctx, "cannot join yet, and try again", "err", err)
		}
		if !sleep(ctx, askEvery) {
			return nil, context.Cause(ctx)
		}
	}
}

// Joined reports whether the host with this data directory is a member already, pending or not: then Join needs no token.
func Joined(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, memberFile))
	return err == nil
}

// pin returns the cluster to believe in, "" if neither a token nor a cluster is given.
func (j *Joining) pin() (writ.ClusterID, *identity.Token, error) {
	if j.Token == "" {
		return j.Cluster, nil, nil
	}
	token, err := identity.ParseToken(j.Token)
	if err != nil {
		return "", nil, err
	}
	if j.Cluster != "" && j.Cluster != token.Pin {
		return "", nil, writ.Errorf(writ.CodeTokenInvalid, "the token is for the cluster %s, not for %s", token.Pin, j.Cluster)
	}
	return token.Pin, &token, nil
}

// ask is one exchange with the door: hello, proof, claim, welcome. It stores what the welcome says.
func (m *Member) ask(ctx context.Context, door nodes.Backend) error {
	joiner := identity.Joiner{
		Name:   m.Name(),
		Key:    m.PublicKey(),
		AgeKey: m.age.Recipient().String(),
		Nonce:  make([]byte, identity.NonceSize),
	}
	_, _ = rand.Read(joiner.Nonce) // never fails
	if m.token != nil {
		joiner.Token = m.token.ID
	}
	hello := nodes.Hello{
		Token: joiner.Token, Name: joiner.Name, Key: joiner.Key, AgeKey: joiner.AgeKey, Nonce: joiner.Nonce, Version: m.version,
	}
	proof, err := door.Greet(ctx, hello)
	if err != nil {
		return fmt.Errorf("greet the supervisor: %w", err)
	}
	before := m.state()
	roster, datacenter, err := identity.VerifyJoinProof(before.Cluster, proof.Rosters, joiner, proof.Nonce, proof.Signature, time.Now())
	if err != nil {
		return fmt.Errorf("verify the supervisor: %w", err)
	}
	if known := m.Roster(); known != nil && roster.Version < known.Version {
		return writ.Errorf(writ.CodeRosterInvalid, "the supervisor knows roster %d, the node has seen %d", roster.Version, known.Version)
	}

	text := identity.JoinClaimText(joiner, proof.Nonce)
	claim := nodes.Claim{Hello: hello, Nonce: proof.Nonce, Signature: ed25519.Sign(m.key, text)}
	if m.token != nil {
		claim.Proof = m.token.Prove(text)
	}
	welcome, err := door.Admit(ctx, claim)
	if err != nil {
		return fmt.Errorf("ask to be admitted: %w", err)
	}
	switch {
	case welcome.Cluster != before.Cluster || welcome.Datacenter != datacenter.ID:
		return writ.Errorf(writ.CodeWrongDatacenter, "the supervisor of %s welcomed the node to datacenter %s of cluster %s",
			datacenter.Name, welcome.Datacenter, welcome.Cluster)
	case !writ.ValidUUID(string(welcome.Node)) || before.Node != "" && before.Node != welcome.Node:
		return writ.Errorf(writ.CodeInternal, "the supervisor calls the node %q", welcome.Node)
	}
	return m.store(record{
		Cluster: welcome.Cluster, Datacenter: welcome.Datacenter, Node: welcome.Node, Name: welcome.Name,
		Admission: welcome.Admission, Epoch: welcome.Epoch, Rosters: proof.Rosters,
	}, roster)
}

// awaitApproval asks the door until the node is approved, and tells once that it waits.
func (m *Member) awaitApproval(ctx context.Context, door nodes.Backend, log *slog.Logger) error {
	for told, failing := false, false; ; {
		switch m.Admission() {
		case writ.AdmissionApproved:
			return nil
		case writ.AdmissionPending:
		default:
			return writ.Errorf(writ.CodeNodeRejected, "the datacenter has %s the node %s", m.Admission(), m.Name()).
				WithHint("to join anew, start with an empty data directory")
		}
		if !told {
			told = true
			log.InfoContext(ctx, "waiting to be approved: `writ node approve "+m.Name()+"`", "node", m.Node())
		}
		if !sleep(ctx, askEvery) {
			return context.Cause(ctx)
		}
		err := m.ask(ctx, door)
		if writ.CodeOf(err) == writ.CodeNodeRejected {
			return err
		}
		if err != nil && !failing && ctx.Err() == nil {
			log.WarnContext(ctx, "cannot ask whether the node is approved, and try again", "node", m.Node(), "err", err)
		}
		failing = err != nil
	}
}

// sleep waits for d and reports whether ctx lasted so long.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
