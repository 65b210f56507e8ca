package client

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/internal/sleep"
)

// unverified returns the error for a claim of a coordinator that no supervisor has signed.
func unverified(d *identity.Datacenter, format string, args ...any) *writ.Error {
	e := writ.Errorf(writ.CodeUnverified, format, args...)
	if d == nil {
		return e.WithHint("use another coordinator with --server")
	}
	return e.WithHint("use another coordinator with --server, or read the log of the supervisor of %s; supervisors of earlier versions sign no "+
		"answers", d.Name)
}

// openSigned verifies a proof by the supervisor of d and returns its only record.
func openSigned[T any](d *identity.Datacenter, kind envelope.Kind, proof []byte) (T, error) {
	var none T
	if len(proof) == 0 {
		return none, errors.New("it shows no proof")
	}
	records, _, err := envelope.Open[T](kind, proof, envelope.Only(d.SupervisorKey))
	switch {
	case err != nil:
		return none, fmt.Errorf("its proof is not from the supervisor of %s: %w", d.Name, err)
	case len(records) != 1:
		return none, fmt.Errorf("its proof contains %d records instead of one", len(records))
	}
	return records[0], nil
}

// openAnswer verifies and returns a supervisor's answer to a signed text.
func openAnswer(roster *identity.Roster, d *identity.Datacenter, text writ.Digest, proof []byte) (writ.Answer, error) {
	a, err := openSigned[writ.Answer](d, envelope.Answer, proof)
	switch {
	case err != nil:
		return writ.Answer{}, err
	case a.Cluster != roster.Cluster || a.Datacenter != d.ID:
		return writ.Answer{}, errors.New("its proof is from another datacenter")
	case a.Text != text:
		return writ.Answer{}, errors.New("its proof is about another text")
	case (a.Refused == nil) == (a.Done == ""):
		return writ.Answer{}, errors.New("its proof contains no decision")
	}
	return a, nil
}

// answerTo verifies a coordinator's answer to a signed text.
type answerTo struct {
	roster     *identity.Roster
	namespace  sshsig.Namespace
	signed     []byte
	text       writ.Digest
	datacenter *identity.Datacenter // datacenter that the text names
	seen       writ.ProjectID       // project in which the signer saw the run, for statements about runs
}

func newAnswerTo(roster *identity.Roster, namespace sshsig.Namespace, signed []byte) (*answerTo, error) {
	text, _, err := sshsig.Split(signed)
	if err != nil {
		return nil, err
	}
	a := &answerTo{roster: roster, namespace: namespace, signed: signed, text: writ.DigestOf(text)}
	if namespace == sshsig.ScriptNamespace {
		p, err := identity.ParsePayload(text)
		if err != nil {
			return nil, err
		}
		a.datacenter = roster.Datacenter(p.Datacenter)
		return a, nil
	}
	s, err := identity.ParseStatement(text)
	if err != nil {
		return nil, err
	}
	a.datacenter, a.seen = roster.Datacenter(s.Datacenter), s.Seen.Project
	return a, nil
}

// done returns the signed result of a statement. The error is UNVERIFIED if the supervisor did not sign that the
// statement was carried out.
func (a *answerTo) done(said api.StatementAnswer) (api.StatementAnswer, writ.Answer, error) {
	answer, err := openAnswer(a.roster, a.datacenter, a.text, said.Proof)
	switch {
	case err != nil:
		return api.StatementAnswer{}, answer, unverified(a.datacenter, "the coordinator reports %q: %v", said.Done, err)
	case answer.Refused != nil:
		return api.StatementAnswer{}, answer, unverified(a.datacenter,
			"the coordinator reports %q, but the supervisor signed a refusal: %s", said.Done, answer.Refused.Message)
	}
	return api.StatementAnswer{Subject: answer.Subject, Done: answer.Done, Proof: said.Proof}, answer, nil
}

// refused returns the verified reason for the refusal of a text. Either the supervisor signed the refusal, or this
// client finds the same error by the newest roster, as a coordinator does before it forwards a text. Any other refusal
// is UNVERIFIED. An error that is not a refusal is returned without proof: a false error has the same effect as
// withholding the text, which a coordinator can always do.
func (a *answerTo) refused(said *writ.Error) error {
	if !isRefusal(said) {
		return said
	}
	if len(said.Proof) == 0 {
		if own := a.verify(); own != nil && writ.CodeOf(own) == said.Code {
			return own
		}
	}
	if a.datacenter == nil {
		return unverified(nil,
			"the coordinator reports a refusal (%s: %s), but the datacenter is not in the roster", said.Code,
			said.Message)
	}
	answer, err := openAnswer(a.roster, a.datacenter, a.text, said.Proof)
	switch {
	case err != nil:
		return unverified(a.datacenter, "the coordinator reports a refusal (%s: %s): %v", said.Code, said.Message, err)
	case answer.Refused == nil:
		return unverified(a.datacenter,
			"the coordinator reports a refusal (%s: %s), but the supervisor signed the result: %s",
			said.Code, said.Message, answer.Done)
	}
	return proven(answer, said.Proof)
}

// proven returns the error that a supervisor signed, with its proof.
func proven(answer writ.Answer, proof []byte) *writ.Error {
	e := *answer.Refused
	e.Proof = proof
	return &e
}

// isRefusal reports whether e refuses a signed text. Errors of the request, or errors that prevent a decision, are not
// refusals.
func isRefusal(e *writ.Error) bool {
	switch e.Code {
	case writ.CodeBadRequest, writ.CodeMethodNotAllowed, writ.CodeHostUnknown, writ.CodeOriginForeign:
		return false
	}
	return e.Decided()
}

// verify verifies the text by the newest roster.
func (a *answerTo) verify() error {
	v := identity.Verifier{Roster: a.roster, ProjectOf: func(writ.RunID) (writ.ProjectID, error) { return a.seen, nil }}
	var err error
	if a.namespace == sshsig.ScriptNamespace {
		_, err = v.Submission(a.signed)
	} else {
		_, err = v.Statement(a.signed)
	}
	return err
}

// Refusal returns the signed reason why a datacenter rejected a submission. The error is UNVERIFIED without the
// supervisor's signature, or if the coordinator shows the run in another state than refused or expired.
func Refusal(roster *identity.Roster, run api.Run) (*writ.Error, error) {
	if run.State != api.RunStateRefused && run.State != api.RunStateExpired {
		return nil, unverified(roster.Datacenter(run.Datacenter),
			"the coordinator reports that run %s is %s, and that its datacenter has not accepted it", run.ID, run.State)
	}
	return refusalOf(roster, run)
}

// refusalOf works like Refusal, for a run in any state.
func refusalOf(roster *identity.Roster, run api.Run) (*writ.Error, error) {
	d := roster.Datacenter(run.Datacenter)
	if d == nil {
		return nil, unverified(nil, "the coordinator reports that run %s is %s, and the roster has no datacenter %s", run.ID,
			run.State, run.Datacenter)
	}
	said := new(writ.Error)
	if run.Failure != nil {
		said = &run.Failure.Error
	}
	answer, err := openAnswer(roster, d, run.Payload, said.Proof)
	switch {
	case err != nil:
		return nil, unverified(d, "the coordinator reports that run %s is %s (%s): %v", run.ID, run.State, said.Message, err)
	case writ.RunIDOf(answer.Text) != run.ID || answer.Refused == nil:
		return nil, unverified(d, "the coordinator reports that run %s is %s, and its proof does not refuse this run", run.ID,
			run.State)
	}
	return proven(answer, said.Proof), nil
}

// Outcome returns the signed result of a run, which alone proves how the run ended. The envelope must be signed by the
// supervisor's key in the roster, and the summary must be for exactly this run. If the datacenter has lost the run, a
// signed refusal replaces the summary. Outcome does not check whether a failed run was resumed later; see Runs.End.
func Outcome(roster *identity.Roster, run api.Run) (writ.Summary, error) {
	d := roster.Datacenter(run.Datacenter)
	if d == nil {
		return writ.Summary{}, unverified(nil,
			"the coordinator reports that run %s is %s, and the roster has no datacenter %s",
			run.ID, run.State,
			run.Datacenter)
	}
	if len(run.Summary) == 0 && run.State == api.RunStateFailed && run.Failure != nil && run.Failure.Code == writ.CodeRunLost {
		why, err := refusalOf(roster, run)
		if err != nil {
			return writ.Summary{}, err
		}
		lost := writ.Errorf(writ.CodeRunLost, "the datacenter has lost the run and refuses it: %s",
			why.Message).
			WithHint("%s", run.Failure.Hint)
		return writ.Summary{
			Run: run.ID, Datacenter: d.ID, Payload: run.Payload, State: writ.RunFailed, Failure: &writ.Failure{Error: *lost},
		}, nil
	}
	s, err := openSigned[writ.Summary](d, envelope.Summary, run.Summary)
	switch {
	case err != nil:
		return writ.Summary{}, unverified(d, "the coordinator reports that run %s is %s: %v", run.ID, run.State, err)
	case s.Run != run.ID || writ.RunIDOf(s.Payload) != run.ID || s.Datacenter != d.ID:
		return writ.Summary{}, unverified(d, "the coordinator reports that run %s is %s, and its proof is about run %s",
			run.ID,
			run.State, s.Run)
	case string(s.State) != string(run.State):
		return writ.Summary{}, unverified(d, "the coordinator reports that run %s is %s, its datacenter has signed %s",
			run.ID,
			run.State, s.State)
	}
	return s, nil
}

// Adopted is the roster version in force in a datacenter.
type Adopted struct {
	Datacenter writ.DatacenterID
	Name       string
	Version    int   // version that its supervisor signed, or 0
	Err        error // why the version is unknown
}

// Adopted asks every datacenter of a roster for the version in force there. An unproven answer sets the Err of that
// datacenter.
func (c Roster) Adopted(ctx context.Context, roster *identity.Roster) ([]Adopted, error) {
	nonce := newNonce()
	list, err := api.Answer[api.AdoptionList](c.client.API.ListAdoptions(ctx,
		&api.ListAdoptionsParams{Nonce: hex.EncodeToString(nonce)}))
	if err != nil {
		return nil, err
	}
	var all []Adopted
	for _, d := range roster.Datacenters {
		a := Adopted{Datacenter: d.ID, Name: d.Name}
		a.Version, a.Err = adoptedBy(roster, &d, nonce, list)
		all = append(all, a)
	}
	return all, nil
}

// adoptedBy finds and verifies the answer of one datacenter.
func adoptedBy(roster *identity.Roster, d *identity.Datacenter, nonce []byte, list api.AdoptionList) (int, error) {
	i := slices.IndexFunc(list.Items, func(a api.DatacenterAdoption) bool { return a.Datacenter == d.ID })
	if i < 0 {
		return 0, writ.Errorf(writ.CodeDatacenterAway, "the coordinator has not asked it")
	}
	if e := list.Items[i].Error; e != nil {
		if e.Code == writ.CodeVerbUnsupported {
			return 0, writ.Errorf(e.Code, "its supervisor is of an earlier version, which signs no adoption: upgrade it")
		}
		return 0, e
	}
	a, err := openSigned[writ.Adoption](d, envelope.Adoption, list.Items[i].Proof)
	switch {
	case err != nil:
		return 0, unverified(d, "the coordinator reports an answer of %s: %v", d.Name, err)
	case a.Cluster != roster.Cluster || a.Datacenter != d.ID:
		return 0, unverified(d, "the coordinator shows the adoption of another datacenter for %s", d.Name)
	case !bytes.Equal(a.Nonce, nonce):
		return 0, unverified(d, "the coordinator shows an earlier adoption of %s", d.Name)
	}
	if a.Roster == roster.Version {
		digest, err := roster.Digest()
		if err == nil && digest != a.Digest {
			err = writ.Errorf(writ.CodeRosterFork, "%s has adopted another version %d of the roster, with the digest %s", d.Name,
				a.Roster, a.Digest)
		}
		if err != nil {
			return 0, err
		}
	}
	return a.Roster, nil
}

// adoptionEvery is the poll interval of AwaitAdoption.
const adoptionEvery = 200 * time.Millisecond

// AdoptionPending is the error of AwaitAdoption if its context ends first.
type AdoptionPending struct {
	Missing []string // datacenters that have not signed yet, each with the reason
	Err     error    // error of the context
}

func (e *AdoptionPending) Error() string {
	return "not confirmed yet by: " + strings.Join(e.Missing, "; ")
}

// Unwrap returns the error of the context.
func (e *AdoptionPending) Unwrap() error { return e.Err }

// AwaitAdoption waits until the given datacenters have signed that this roster, or a later one, is in force. If some
// have not signed when the duration `within` has passed, the error is NOT_ADOPTED and names them. It returns at once
// with UNVERIFIED or ROSTER_FORK if a proof is false.
func (c Roster) AwaitAdoption(
	ctx context.Context, roster *identity.Roster, ids []writ.DatacenterID, within time.Duration,
) error {
	asking, stop := context.WithTimeout(ctx, within)
	defer stop()
	missing := []string{"no datacenter was asked"}
	var lie error
	for {
		all, err := c.Adopted(asking, roster)
		switch {
		case err == nil:
			missing, lie = lacking(all, ids, roster.Version)
		case asking.Err() == nil:
			missing, lie = []string{"no datacenter could be asked: " + writ.AsError(err).Message}, nil
		}
		if len(missing) == 0 || lie != nil {
			return lie
		}
		if sleep.For(asking, adoptionEvery) == nil {
			continue
		}
		if ctx.Err() != nil {
			return &AdoptionPending{Missing: missing, Err: ctx.Err()}
		}
		return writ.Errorf(writ.CodeNotAdopted,
			"version %d of the roster is signed, but after %s these datacenters have not confirmed it: %s",
			roster.Version, within, strings.Join(missing, "; ")).
			WithHint("`writ roster show` asks again; until a datacenter has this version, it uses the previous one")
	}
}

// lacking describes the datacenters that have not signed a version. It also returns the error of the first false proof.
func lacking(all []Adopted, ids []writ.DatacenterID, version int) (missing []string, lie error) {
	for _, a := range all {
		switch {
		case !slices.Contains(ids, a.Datacenter) || a.Err == nil && a.Version >= version:
		case a.Err == nil:
			missing = append(missing, fmt.Sprintf("%s (has version %d)", a.Name, a.Version))
		default:
			missing = append(missing, fmt.Sprintf("%s (%s)", a.Name, writ.AsError(a.Err).Message))
			if code := writ.CodeOf(a.Err); lie == nil && (code == writ.CodeUnverified || code == writ.CodeRosterFork) {
				lie = a.Err
			}
		}
	}
	return missing, lie
}
