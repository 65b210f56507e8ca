package member

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
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
	"writ/identity/chain"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/internal/sleep"
	"writ/supervisor/nodes"
)

// AskEvery is the retry interval for an unreachable node API and for the approval of the node.
const AskEvery = 5 * time.Second

// askSeldom is the retry interval after a join failed twice with the same error. It limits the load that a rack of
// machines puts on a supervisor.
const askSeldom = 30 * time.Second

// Joining holds the inputs of Join.
type Joining struct {
	Dir     string         // data directory, with keys and membership
	API     nodes.Backend  // node API of the datacenter's supervisor
	Token   string         // "writ2.…"; without a token the node is pending until an approve statement
	Cluster writ.ClusterID // the trusted cluster, needed only without a token: a token contains it
	Name    string         // requested name; see writ.ValidName
	Serial  string         // serial number of the machine; a batch may approve the node by it; "" if unknown
	Version string         // version of the program, for people
	Log     *slog.Logger   // discards if nil
}

// Join makes the host a member of a datacenter, or returns its existing membership, so it may be called at every start.
// The supervisor first proves its identity, up to the cluster's root, before the node sends anything derived from the
// token. Join retries while the node API is unreachable. The admission may still be pending; Runner.Run waits for it.
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
				WithHint("use another --data for this node; on a machine that starts from an image, attach the disk of its own node")
		}
		return m, nil
	}
	switch {
	case pin == "":
		return nil, writ.Errorf(writ.CodeUsage, "no cluster is configured: %s has no membership", j.Dir).
			WithHint("if it ran before, --data must name its directory; give a new one a token (`writ token create`), or the cluster's id and approve it with `writ node approve NODE FINGERPRINT`")
	case !writ.ValidName(j.Name):
		return nil, writ.Errorf(writ.CodeUsage, "%q cannot be the name of a node", j.Name).
			WithHint("use 1 to 63 lower-case letters, digits and hyphens")
	case writ.ValidUUID(j.Name):
		return nil, writ.Errorf(writ.CodeUsage, "%q cannot be the name of a node: it looks like an ID", j.Name).
			WithHint("use a name like n1")
	}
	m.record.Cluster, m.record.Name = pin, j.Name
	log := cmp.Or(j.Log, slog.New(slog.DiscardHandler))
	for same, before := 0, ""; ; same++ {
		err := ask(ctx, m, j.API)
		if err == nil {
			return m, nil
		}
		if !writ.AsError(err).Retryable() {
			return nil, err
		}
		if cause, ok := errors.AsType[*writ.Error](writ.AsError(err).Err); ok && cause.Decided() {
			return nil, cause // the address belongs to another supervisor; fail at once, so that the operator sees it
		}
		pause := AskEvery
		if before != err.Error() {
			same, before = 0, err.Error()
		}
		if same > 0 {
			pause = askSeldom
		}
		if same < 2 { // log only the first two
			log.WarnContext(ctx, LogCannotJoin, "again", pause, "err", err)
		}
		if sleep.For(ctx, pause) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// Joined reports whether the host with this data directory is a member, pending or not. Join then needs no token.
func Joined(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, memberFile))
	return err == nil
}

// LogCannotJoin is the log message for the first two failures with the same error. Its attributes are "again" and
// "err". The init process of a machine reads it.
const LogCannotJoin = "cannot join yet, and try again"

// Place describes a host's membership, as far as the host knows.
type Place struct {
	Admission   writ.Admission
	Name        string
	Datacenter  string // its name
	Fingerprint string // fingerprint of the node's key
}

// PlaceOf returns the place of the host with this data directory. All fields are empty if it has not joined.
func PlaceOf(dir string) Place {
	text, err := os.ReadFile(filepath.Join(dir, memberFile))
	if err != nil {
		return Place{}
	}
	var r Record
	if json.Unmarshal(text, &r) != nil {
		return Place{} // the runner reports this when it starts
	}
	key, err := Key(dir)
	if err != nil {
		return Place{}
	}
	p := Place{
		Admission: r.Admission, Name: r.Name, Fingerprint: sshsig.Fingerprint(key.Public().(ed25519.PublicKey)),
	}
	// The roster was valid when it was stored.
	if roster, err := identity.VerifyRosters(r.Cluster, r.Rosters, time.Time{}); err == nil {
		if dc := roster.Datacenter(r.Datacenter); dc != nil {
			p.Datacenter = dc.Name
		}
	}
	return p
}

// pin returns the trusted cluster, or "" if neither a token nor a cluster is given.
func (j *Joining) pin() (writ.ClusterID, *identity.Token, error) {
	if j.Token == "" {
		return j.Cluster, nil, nil
	}
	token, err := identity.ParseToken(j.Token)
	if err != nil {
		return "", nil, err
	}
	if j.Cluster != "" && j.Cluster != token.Pin {
		return "", nil, writ.Errorf(writ.CodeTokenInvalid, "the token is for the cluster %s, not for %s", token.Pin,
			j.Cluster)
	}
	return token.Pin, &token, nil
}

// ask performs one join exchange with the node API: hello, proof, claim, welcome. It stores the resulting membership.
func ask(ctx context.Context, m *Member, api nodes.Backend) error {
	joiner := identity.Joiner{
		Name:   m.Name(),
		Key:    m.PublicKey(),
		AgeKey: m.age.Recipient().String(),
		Nonce:  identity.NewChallenge(),
	}
	if m.token != nil {
		joiner.Token = m.token.ID
	}
	hello := nodes.Hello{
		Token: joiner.Token, Name: joiner.Name, Key: joiner.Key, AgeKey: joiner.AgeKey, Nonce: joiner.Nonce,
		Version: m.version,
	}
	proof, err := api.Greet(ctx, hello)
	if err != nil {
		return fmt.Errorf("send hello to the supervisor: %w", err)
	}
	before := m.State()
	chain, err := learn(ctx, m, api, before)
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
	member, err := openWelcome(m, welcome.Signed, datacenter, roster, slices.Concat(joiner.Nonce, proof.Nonce))
	if err != nil {
		return fmt.Errorf("verify the welcome: %w", err)
	}
	if before.Node != "" && before.Node != member.Node {
		return writ.Errorf(writ.CodeInternal, "the supervisor assigned the node ID %q, but earlier %s", member.Node,
			before.Node)
	}
	return m.write(Record{
		Cluster: member.Cluster, Datacenter: member.Datacenter, Node: member.Node, Name: member.Name,
		Admission: member.Admission, Epoch: member.Epoch, Rosters: chain.Links, Floor: before.Floor,
	}, roster)
}

// Refresh fetches, verifies and stores the rosters that are newer than the member's newest.
func Refresh(ctx context.Context, m *Member, api nodes.Backend) error {
	links, err := chain.CollectPages(m.Roster().Version,
		func(after int) ([][]byte, error) { return api.Rosters(ctx, after) })
	if err != nil {
		return fmt.Errorf("fetch rosters: %w", err)
	}
	return m.Adopt(links)
}

// learn fetches the rosters that the node lacks and verifies them from the pin of its cluster.
func learn(
	ctx context.Context, m *Member, api nodes.Backend, before Record,
) (identity.RosterChain, error) {
	known := identity.RosterChain{Newest: m.Roster(), Links: before.Rosters}
	after := 0
	if known.Newest != nil {
		after = known.Newest.Version
	}
	links, err := chain.CollectPages(after, func(after int) ([][]byte, error) { return api.Rosters(ctx, after) })
	if err != nil {
		return known, fmt.Errorf("fetch rosters: %w", err)
	}
	chain, err := known.Extend(before.Cluster, links, time.Now())
	if err != nil {
		return known, fmt.Errorf("verify the supervisor: %w", err)
	}
	return chain, nil
}

// openWelcome verifies the signed answer to a join. The answer contains all facts that the node relies on, so that no
// component in between can change them: the supervisor's epoch, the newest roster, and the node's identity.
func openWelcome(
	m *Member, signed []byte, datacenter *identity.Datacenter, roster *identity.Roster, nonce []byte,
) (nodes.Membership, error) {
	if len(signed) == 0 {
		return nodes.Membership{}, writ.Errorf(writ.CodeSignatureMalformed, "the supervisor's welcome is not signed").
			WithHint("upgrade the supervisor before its nodes; if it has the node's version, a proxy removed the " +
				"signature")
	}
	opened, _, err := envelope.Open[nodes.Membership](envelope.Welcome, signed, envelope.Only(datacenter.SupervisorKey))
	if err != nil {
		return nodes.Membership{}, err
	}
	member, err := checkAnswer(m, opened, nonce)
	if err != nil {
		return member, err
	}
	digest, err := roster.Digest()
	switch {
	case err != nil:
		return member, err
	case member.Datacenter != datacenter.ID:
		return member, writ.Errorf(writ.CodeWrongDatacenter, "the supervisor of %s welcomed the node to datacenter %s",
			datacenter.Name, member.Datacenter)
	// The supervisor adopted a newer roster in the meantime, or the node did not get all rosters.
	case member.Roster != roster.Version || member.Digest != digest:
		return member, writ.Errorf(writ.CodeRosterTooOld, "the supervisor has roster %d, but sent only those up to %d",
			member.Roster, roster.Version).
			WithHint("the node retries automatically")
	case !writ.ValidUUID(string(member.Node)) || !writ.ValidName(member.Name):
		return member, writ.Errorf(writ.CodeInternal, "the supervisor assigned an invalid node ID %q or name %q",
			member.Node, member.Name)
	}
	return member, nil
}

// checkAnswer checks that the supervisor's signed answer is for this node, cluster and nonce.
func checkAnswer(m *Member, opened []nodes.Membership, nonce []byte) (nodes.Membership, error) {
	member := opened[0]
	switch {
	case len(opened) != 1 || !bytes.Equal(member.Nonce, nonce) || !m.PublicKey().Equal(ed25519.PublicKey(member.Key)):
		return nodes.Membership{}, writ.Errorf(writ.CodeSignatureInvalid,
			"the supervisor's signed answer is for another request or another node")
	case member.Cluster != m.State().Cluster:
		return nodes.Membership{}, writ.Errorf(writ.CodeWrongCluster, "the supervisor answered for the cluster %s",
			member.Cluster)
	}
	return member, writ.CheckEpoch(member.Epoch, time.Now())
}

// AwaitApproval polls the node API until the node is approved. It logs once that it waits.
func AwaitApproval(ctx context.Context, m *Member, api nodes.Backend, log *slog.Logger) error {
	for told, failing := false, false; ; {
		switch m.Admission() {
		case writ.AdmissionApproved:
			return nil
		case writ.AdmissionPending:
		default:
			return m.Rejected()
		}
		if !told {
			told = true
			fingerprint := sshsig.Fingerprint(m.PublicKey())
			log.InfoContext(ctx, "waiting for approval: `writ node approve "+m.Name()+" "+fingerprint+"`",
				"node", m.Node(), "key", fingerprint)
		}
		if sleep.For(ctx, AskEvery) != nil {
			return context.Cause(ctx)
		}
		err := ask(ctx, m, api)
		if err != nil && !failing && ctx.Err() == nil {
			log.WarnContext(ctx, "request the approval of the node; trying again", "node", m.Node(), "err", err)
		}
		failing = err != nil
	}
}
