package runner

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/internal/sleep"
	"writ/supervisor/nodes"
)

// askEvery is how often a node asks for what it waits for: a supervisor's node API that does not answer, or its approval.
const askEvery = 5 * time.Second

// askSeldom is how often a node asks to join after it failed twice in the same way. A rack of machines troubles a supervisor less then.
const askSeldom = 30 * time.Second

// Joining is what a host needs to become a node.
type Joining struct {
	Dir     string         // the data directory; keys and membership are kept there
	API     nodes.Backend  // of the datacenter's supervisor
	Token   string         // "writ2.…"; without one the node is pending until an approve statement
	Cluster writ.ClusterID // needed only without a token: what the node believes in; a token names it
	Name    string         // what the node wants to be called; see writ.ValidName
	Serial  string         // number of its machine, by which it may be approved; "" if it has none
	Version string         // of the program, for people
	Log     *slog.Logger   // nothing is logged if nil
}

// Join makes the host a member of a datacenter, or returns what it already is: it can be called at every start. The supervisor
// proves itself first, up to the cluster's root, before anything that the token made is sent. Join waits for a node API that does not
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
	if identity.ValidSerial(j.Serial) {
		m.serial = j.Serial
	}
	if m.Node() != "" {
		if pin != "" && pin != m.record.Cluster {
			return nil, writ.Errorf(writ.CodeConflict, "%s belongs to a node of another cluster", j.Dir).
				WithHint("use another --data for this one, or on a machine from an image the disk of its own node")
		}
		return m, nil
	}
	switch {
	case pin == "":
		return nil, writ.Errorf(writ.CodeUsage, "the node does not know which cluster to believe in: %s has no membership", j.Dir).
			WithHint("if it ran before, --data must name its directory; give a new one a token (`writ token create`), or the cluster's id and approve it with `writ node approve NODE FINGERPRINT`")
	case !writ.ValidName(j.Name):
		return nil, writ.Errorf(writ.CodeUsage, "%q cannot be the name of a node", j.Name).
			WithHint("use 1 to 63 lower-case letters, digits and hyphens")
	case writ.ValidUUID(j.Name):
		return nil, writ.Errorf(writ.CodeUsage, "%q cannot be the name of a node: it has the form of an id", j.Name).WithHint("use a name like n1")
	}
	m.record.Cluster, m.record.Name = pin, j.Name
	log := cmp.Or(j.Log, slog.New(slog.DiscardHandler))
	for same, before := 0, ""; ; same++ {
		err := m.ask(ctx, j.API)
		if err == nil {
			return m, nil
		}
		if !writ.AsError(err).Retryable() {
			return nil, err
		}
		if cause, ok := errors.AsType[*writ.Error](writ.AsError(err).Err); ok && cause.Decided() {
			return nil, cause // the address leads to somebody else; a person who starts a node sees that at once
		}
		pause := askEvery
		if before != err.Error() {
			same, before = 0, err.Error()
		}
		if same > 0 {
			pause = askSeldom
		}
		if same < 2 { // then it is known
			log.WarnContext(ctx, LogCannotJoin, "again", pause, "err", err)
		}
		if sleep.For(ctx, pause) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// Joined reports whether the host with this data directory is a member already, pending or not: then Join needs no token.
func Joined(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, memberFile))
	return err == nil
}

// Lines of the log that say how far a node is. The first process of a machine reads them.
const (
	LogCannotJoin = "cannot join yet, and try again" // with the pause, then err; the first two times of the same error
	LogServing    = "serving"
	LogNoQueue    = "queue unavailable; results wait" // with err
	LogQueue      = "queue available again"
)

// Place is what a host knows of its place in its datacenter.
type Place struct {
	Admission   writ.Admission
	Name        string
	Datacenter  string // its name
	Fingerprint string // of the node's key
}

// PlaceOf says what the host with this data directory is in its datacenter, as far as it knows. All is "" if it has not joined.
func PlaceOf(dir string) Place {
	text, err := os.ReadFile(filepath.Join(dir, memberFile))
	if err != nil {
		return Place{}
	}
	var r record
	if json.Unmarshal(text, &r) != nil {
		return Place{} // the runner says so when it starts
	}
	key, err := Key(dir)
	if err != nil {
		return Place{}
	}
	p := Place{Admission: r.Admission, Name: r.Name, Fingerprint: identity.Fingerprint(key.Public().(ed25519.PublicKey))}
	// The roster was valid when it was stored.
	if roster, err := identity.VerifyRosters(r.Cluster, r.Rosters, time.Time{}); err == nil {
		if dc := roster.Datacenter(r.Datacenter); dc != nil {
			p.Datacenter = dc.Name
		}
	}
	return p
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

// ask is one exchange with the api: hello, proof, claim, welcome. It stores what the welcome says.
func (m *Member) ask(ctx context.Context, api nodes.Backend) error {
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
	proof, err := api.Greet(ctx, hello)
	if err != nil {
		return fmt.Errorf("greet the supervisor: %w", err)
	}
	before := m.state()
	chain, err := m.learn(ctx, api, before)
	if err != nil {
		return err
	}
	roster := chain.Newest
	datacenter, err := identity.VerifyJoinProof(roster, joiner, proof.Nonce, proof.Signature)
	if err != nil {
		return fmt.Errorf("verify the supervisor: %w", err)
	}
	if m.token != nil {
		if err := m.token.Admits(roster, datacenter); err != nil {
			return fmt.Errorf("compare the token with the datacenter: %w", err)
		}
	}
	if proof.Serial {
		joiner.Serial = m.serial
	}
	text := identity.JoinClaimText(joiner, proof.Nonce)
	claim := nodes.Claim{Hello: hello, Nonce: proof.Nonce, Serial: joiner.Serial, Signature: ed25519.Sign(m.key, text)}
	if m.token != nil {
		claim.Proof = m.token.Prove(text)
	}
	welcome, err := api.Admit(ctx, claim)
	if err != nil {
		return fmt.Errorf("ask to be admitted: %w", err)
	}
	member, err := m.openWelcome(welcome.Signed, datacenter, roster, slices.Concat(joiner.Nonce, proof.Nonce))
	if err != nil {
		return fmt.Errorf("verify the welcome: %w", err)
	}
	if before.Node != "" && before.Node != member.Node {
		return writ.Errorf(writ.CodeInternal, "the supervisor calls the node %q, and has called it %s", member.Node, before.Node)
	}
	return m.store(record{
		Cluster: member.Cluster, Datacenter: member.Datacenter, Node: member.Node, Name: member.Name,
		Admission: member.Admission, Epoch: member.Epoch, Rosters: chain.Links, Floor: before.Floor,
	}, roster)
}

// learn fetches the rosters that the node lacks and verifies them from the pin of its cluster.
func (m *Member) learn(ctx context.Context, api nodes.Backend, before record) (identity.RosterChain, error) {
	known := identity.RosterChain{Newest: m.Roster(), Links: before.Rosters}
	after := 0
	if known.Newest != nil {
		after = known.Newest.Version
	}
	links, err := identity.CollectPages(after, func(after int) ([][]byte, error) { return api.Rosters(ctx, after) })
	if err != nil {
		return known, fmt.Errorf("fetch rosters: %w", err)
	}
	chain, err := known.Extend(before.Cluster, links, time.Now())
	if err != nil {
		return known, fmt.Errorf("verify the supervisor: %w", err)
	}
	return chain, nil
}

// openWelcome opens what a supervisor signed in answer to a join. All that the node will live by is in it, so that nobody in between can
// change any of it: the supervisor's epoch, the newest roster, and who the node is.
func (m *Member) openWelcome(signed []byte, datacenter *identity.Datacenter, roster *identity.Roster, nonce []byte) (nodes.Membership, error) {
	if len(signed) == 0 {
		return nodes.Membership{}, writ.Errorf(writ.CodeSignatureMalformed, "the supervisor's welcome is not signed").
			WithHint("upgrade the supervisor, which comes before its nodes; if it is as new as the node, the network in between has cut the " +
				"signature off")
	}
	opened, _, err := envelope.Open[nodes.Membership](envelope.Welcome, signed, envelope.Only(datacenter.SupervisorKey))
	if err != nil {
		return nodes.Membership{}, err
	}
	member, err := m.answers(opened, nonce)
	if err != nil {
		return member, err
	}
	digest, err := roster.Digest()
	switch {
	case err != nil:
		return member, err
	case member.Datacenter != datacenter.ID:
		return member, writ.Errorf(writ.CodeWrongDatacenter, "the supervisor of %s welcomed the node to datacenter %s", datacenter.Name,
			member.Datacenter)
	case member.Roster != roster.Version || member.Digest != digest: // it adopted one meanwhile, or somebody held some back
		return member, writ.Errorf(writ.CodeRosterTooOld, "the supervisor has roster %d, and the node was given those up to %d", member.Roster,
			roster.Version).
			WithHint("the node asks again by itself")
	case !writ.ValidUUID(string(member.Node)) || !writ.ValidName(member.Name):
		return member, writ.Errorf(writ.CodeInternal, "the supervisor calls the node %q, %q", member.Node, member.Name)
	}
	return member, nil
}

// answers checks that what a supervisor signed is about this node, and answers the question with a nonce.
func (m *Member) answers(opened []nodes.Membership, nonce []byte) (nodes.Membership, error) {
	member := opened[0]
	switch {
	case len(opened) != 1 || !bytes.Equal(member.Nonce, nonce) || !m.PublicKey().Equal(ed25519.PublicKey(member.Key)):
		return nodes.Membership{}, writ.Errorf(writ.CodeSignatureInvalid, "what the supervisor signed answers another question, or another node")
	case member.Cluster != m.state().Cluster:
		return nodes.Membership{}, writ.Errorf(writ.CodeWrongCluster, "the supervisor answered for the cluster %s", member.Cluster)
	}
	return member, writ.CheckEpoch(member.Epoch, time.Now())
}

// awaitApproval asks the node API until the node is approved, and tells once that it waits.
func (m *Member) awaitApproval(ctx context.Context, api nodes.Backend, log *slog.Logger) error {
	for told, failing := false, false; ; {
		switch m.Admission() {
		case writ.AdmissionApproved:
			return nil
		case writ.AdmissionPending:
		default:
			return m.rejected()
		}
		if !told {
			told = true
			fingerprint := identity.Fingerprint(m.PublicKey())
			log.InfoContext(ctx, "waiting to be approved: `writ node approve "+m.Name()+" "+fingerprint+"`", "node", m.Node(), "key", fingerprint)
		}
		if sleep.For(ctx, askEvery) != nil {
			return context.Cause(ctx)
		}
		err := m.ask(ctx, api)
		if err != nil && !failing && ctx.Err() == nil {
			log.WarnContext(ctx, "ask for the approval of the node; trying again", "node", m.Node(), "err", err)
		}
		failing = err != nil
	}
}
