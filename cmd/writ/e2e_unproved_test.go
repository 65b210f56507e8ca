package main

import (
	"crypto/ed25519"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/coord/api"
	"writ/identity"
)

// at restricts a lie to the answers of paths with a prefix.
func at(prefix string, lie func(o map[string]any) any) func(string, any) any {
	return func(path string, answer any) any {
		o, is := answer.(map[string]any)
		if !is || !strings.HasPrefix(path, prefix) {
			return answer
		}
		return lie(o)
	}
}

// stripped removes the proofs from an answer.
func stripped(o map[string]any) any {
	each(o, func(o map[string]any) {
		delete(o, "proof")
		delete(o, "summary")
	})
	return o
}

// proofOf returns the proof in an answer.
func proofOf(o map[string]any) (proof []byte) {
	each(o, func(o map[string]any) {
		if text, is := o["proof"].(string); is {
			_ = json.Unmarshal([]byte(`"`+text+`"`), &proof)
		}
	})
	return proof
}

// refusedWith returns a coordinator's false refusal of a statement that took effect.
func refusedWith(proof []byte) any {
	return api.Problem{Type: "urn:writ:code:ROLE_MISSING", Title: "x", Status: 403, Code: writ.CodeRoleMissing, Detail: "alice may not", RequestID: "1", Proof: proof}
}

// unproved makes a coordinator give answers that no supervisor has signed, to every command that signs a statement,
// changes the roster, or shows the end of a run. Each command must fail with UNVERIFIED. The map decisions has a
// command for every rule.
func (r *redirected) unproved(t *testing.T, l *liar) {
	in := *r
	in.Cluster = r.In(t)
	wants := func(what string, lie func(string, any) any, code int, text string, args ...string) {
		t.Helper()
		l.lies(lie)
		defer l.lies(nil)
		if out, said, got := in.Try(append(in.words(args), "--server", l.URL)...); got != code || !strings.Contains(out+said, text) {
			t.Errorf("%s: writ %s: exit %d, want %d and %q\n%s%s", what, strings.Join(args, " "), got, code, text, out, said)
		}
	}
	const statements, runs, adoptions = "/v1/statements", "/v1/runs/", "/v1/roster/adoptions"
	lied := func(what string, lie func(string, any) any, args ...string) {
		t.Helper()
		wants(what, lie, writ.ExitUnverified, "UNVERIFIED", args...)
	}

	names := slices.Sorted(maps.Keys(decisions))
	gone := func(name string) bool { return name == "node lost" || name == "node remove" }
	names = append(slices.DeleteFunc(slices.Clone(names), gone), slices.DeleteFunc(names, func(name string) bool { return !gone(name) })...)
	for _, name := range names { // after statements that succeed or are refused
		args := slices.Clone(decisions[name].args)
		if name == "node remove" {
			args[len(args)-1] = "liked-n"
		}
		lie := at(statements, stripped)
		if name == "project "+identity.DecisionCancelRuns { // a run to cancel must exist
			open := in.lie("open runs", [2]string{})
			lie = func(path string, answer any) any { return open(path, at(statements, stripped)(path, answer)) }
		}
		lied(name+" without a proof", lie, args...)
	}
	label := []string{"node", "label", "witness", "a=b"}
	var earlier []byte
	wants("an honest answer", at(statements, func(o map[string]any) any { earlier = proofOf(o); return o }), 0, "verified", label...)
	lied("with the proof of another statement", at(statements, func(o map[string]any) any { o["proof"] = earlier; return o }), label...)
	lied("refused with the proof that it was done", at(statements, func(o map[string]any) any { return refusedWith(proofOf(o)) }), label...)
	lied("refused without a proof", at(statements, func(map[string]any) any { return refusedWith(nil) }), label...)
	wants("a signed refusal", nil, writ.ExitConflict, "cannot become rejected", "node", "reject", "witness", "PRINT:witness")
	lied("done with the proof that it was refused", at(statements, func(o map[string]any) any {
		return api.StatementAnswer{Subject: "x", Done: "node witness is removed", Proof: proofOf(o)}
	}), "node", "reject", "witness", "PRINT:witness")

	in.undrained(l, lied, wants)

	var tokens map[string]any
	list := []string{"token", "list"}
	const standings = "/v1/datacenters/"
	wants("an honest list of tokens", at(standings, func(o map[string]any) any { tokens = o; return o }), 0, "alice", list...)
	in.Writ("token", "create")
	lied("tokens from before", at(standings, func(map[string]any) any { return tokens }), list...)
	lied("tokens without a proof", at(standings, stripped), list...)
	wants("an older supervisor", at(standings, unsupported), writ.CodeVerbUnsupported.Info().Exit, "take the id from the token itself", list...)

	in.unheld(lied, wants)

	in.Script("fine.tengo", "x := 1\n")
	fine := string(in.Submit("fine.tengo"))
	wants("an honest end", nil, 0, "succeeded", "run", "watch", fine)
	report := filepath.Join(in.Dir, "report.xml")
	lied("a submission without a proof", at(runs, stripped), "submit", "fine.tengo", "--junit", report)
	if text, err := os.ReadFile(report); err != nil || !strings.Contains(string(text), "UNVERIFIED") {
		t.Errorf("the report of a submission without a proof: %v\n%s", err, text)
	}
	failed := string(in.runs["named"])
	state := func(to string) func(string, any) any {
		return at(runs, func(o map[string]any) any {
			if o["state"] != nil {
				o["state"] = to
			}
			return o
		})
	}
	refused := at(runs, func(o map[string]any) any {
		if o["state"] != nil {
			o["state"] = "refused"
			delete(o, "accepted")
			o["failure"] = map[string]any{"code": "ROLE_MISSING", "message": "alice may not", "proof": earlier}
		}
		return o
	})
	for _, command := range []string{"show", "watch", "explain"} {
		lied("a success as a failure", state("failed"), "run", command, fine)
		lied("a success as cancelled", state("cancelled"), "run", command, fine)
		lied("a success as refused", refused, "run", command, fine)
		lied("a success without a proof", at(runs, stripped), "run", command, fine)
		lied("a failure as a success", state("succeeded"), "run", command, failed)
	}
	wants("an honest end", nil, 0, "verified", "run", "show", fine)

	in.Script("flaky.tengo", "import(\"herodb\").create(\"flaky-1-db\", {memory_mib: 64}, {retries: 0}).name\n")
	flaky := string(in.Submit("flaky.tengo"))
	wants("a run that can be resumed", nil, writ.ExitFailed, "has failed", "run", "watch", flaky)
	var before any
	wants("an honest failure", func(path string, answer any) any {
		if path == "/v1/runs/"+flaky {
			before = answer
		}
		return answer
	}, 0, "and verified\n", "run", "show", flaky)
	wants("a resume", nil, 0, "succeeded", "run", "resume", flaky)
	asBefore := func(path string, answer any) any {
		if path == "/v1/runs/"+flaky {
			return before
		}
		return answer
	}
	var stood any
	standing := "/v1/runs/" + flaky + "/standing"
	withoutStanding := func(path string, answer any) any {
		if path == standing {
			stood = answer
			return unsupported(nil)
		}
		return asBefore(path, answer)
	}
	const unknown = "; the run may have been resumed since then: "
	wants("an earlier end without a signed state", withoutStanding, 0, "and verified as of ", "run", "show", flaky)
	wants("an earlier end without a signed state", withoutStanding, writ.ExitFailed, unknown, "run", "watch", flaky)
	wants("an earlier end without a signed state", withoutStanding, 0, unknown, "run", "explain", flaky)
	for _, command := range []string{"show", "watch", "explain"} {
		lied("an earlier end of a run that succeeded since", asBefore, "run", command, flaky)
	}
	lied("an earlier end, with an earlier answer", func(path string, answer any) any {
		if path == standing {
			return stood
		}
		return asBefore(path, answer)
	}, "run", "show", flaky)
	wants("an honest end after a resume", nil, 0, "succeeded, signed", "run", "show", flaky)

	in.Script("web.tengo", "x := 1\n")
	bound := []string{"submit", "web.tengo", "--deployment", "web@7"}
	wants("a signed refusal", nil, writ.ExitConflict, "CONFLICT", bound...)
	lied("a refusal without a proof", at(runs, stripped), bound...)
	lied("a refusal of another text", at(runs, func(o map[string]any) any {
		each(o, func(o map[string]any) {
			if o["code"] != nil {
				o["proof"] = earlier
			}
		})
		return o
	}), bound...)
	lied("an unsigned expiry", at(runs, func(o map[string]any) any {
		if o["state"] != nil {
			o["state"], o["failure"] = "expired", map[string]any{"code": "EXPIRED", "message": "it could be accepted until now"}
			delete(o, "accepted")
		}
		return o
	}), "run", "show", fine)

	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	var adopted map[string]any
	take := at(adoptions, func(o map[string]any) any { adopted = o; return o })
	replay := at(adoptions, func(map[string]any) any { return adopted })
	withheld := at(adoptions, func(map[string]any) any { return map[string]any{"items": []any{}} })
	soon := func(args ...string) []string { return append(args, "--adopt-timeout", "2s") }
	wants("an honest adoption", take, 0, "in force in east", "user", "add", "bob", "--key", strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), "--role", "viewer")
	lied("an adoption from before", replay, soon("project", "add", "p1")...)
	lied("an adoption without a proof", at(adoptions, stripped), soon("roster", "renew")...)
	wants("an adoption that is withheld", withheld, writ.ExitTimeout, "until a datacenter has this version, it still accepts signatures of bob", soon("user", "remove", "bob")...)
	l.lies(withheld)
	if out, log, _ := in.Try(append(in.words(soon("user", "remove", "bob")), "--server", l.URL)...); strings.Contains(out+log, "accepted any more") || strings.Contains(log, "✓") {
		t.Errorf("user remove reports success without a proof:\n%s%s", out, log)
	}
	l.lies(nil)
	wants("nobody waits", withheld, 0, "datacenters have not confirmed it: east", "user", "remove", "bob", "--no-wait")
	lied("a revocation that did not arrive", replay, soon("user", "remove", "bob", "--revoke", "--yes")...)
	wants("an older supervisor", at(adoptions, func(o map[string]any) any {
		each(o, func(o map[string]any) {
			if delete(o, "proof"); o["name"] != nil {
				o["error"] = map[string]any{"code": "VERB_UNSUPPORTED", "message": "x"}
			}
		})
		return o
	}), writ.ExitTimeout, "upgrade it", soon("project", "add", "p2")...)
	lied("an adoption from before", replay, "roster", "show")
	wants("an honest adoption", nil, 0, "east: version", "roster", "show")
}

// unsupported returns the answer of a coordinator whose supervisor cannot sign an answer to a question.
func unsupported(map[string]any) any {
	return api.Problem{Type: "urn:writ:code:VERB_UNSUPPORTED", Title: "x", Status: 501, Code: writ.CodeVerbUnsupported, Detail: "x", RequestID: "1"}
}

// unheld makes a coordinator hide holds and invent them. Users see only holds that the supervisor signs now, and
// otherwise that a signature is missing.
func (r *redirected) unheld(lied func(string, func(string, any) any, ...string), wants func(string, func(string, any) any, int, string, ...string)) {
	r.T.Helper()
	const datacenters, what = "/v1/datacenters/", "the disks fail"
	var free, held map[string]any
	list, hold, release := []string{"hold", "list"}, []string{"hold", "--operation", "herodb", "--reason", what}, []string{"release", "--operation", "herodb"}
	wants("an honest list of holds", at(datacenters, func(o map[string]any) any { free = o; return o }), 0, "", list...)
	r.again(writ.ExitDone, hold...)
	hidden := at("/v1/holds", func(o map[string]any) any {
		each(o, func(o map[string]any) {
			if o["holds"] != nil {
				o["holds"] = []any{}
			}
		})
		return o
	})
	wants("a hold that the unsigned list hides", hidden, 0, what, list...)
	wants("a hold that the unsigned list hides", hidden, 0, "alice has held", hold...)
	wants("an honest list of holds", at(datacenters, func(o map[string]any) any { held = o; return o }), 0, what, list...)
	lied("holds from before", at(datacenters, func(map[string]any) any { return free }), list...)
	lied("holds without a proof", at(datacenters, stripped), list...)
	lied("holds from before", at(datacenters, func(map[string]any) any { return free }), release...)
	wants("holds from before", at(datacenters, func(o map[string]any) any {
		if o["proof"] != nil {
			return free
		}
		return o
	}), 0, "the holds are unknown", "dc", "list")
	wants("a datacenter that is away", at(datacenters, func(map[string]any) any {
		return api.Problem{Type: "urn:writ:code:DATACENTER_UNAVAILABLE", Title: "x", Status: 503, Code: writ.CodeDatacenterAway, Detail: "not connected", RequestID: "1"}
	}), writ.ExitUnreachable, "east cannot be asked", list...)
	wants("an older supervisor", at(datacenters, unsupported), writ.CodeVerbUnsupported.Info().Exit, "does not sign its holds: upgrade it", list...)
	wants("an older supervisor", at(datacenters, unsupported), 0, "are not verified", hold...)
	r.again(writ.ExitDone, release...)
	lied("a hold that was released", at(datacenters, func(map[string]any) any { return held }), list...)
}

// undrained makes a coordinator report a node as drained. A command that waits for that accepts it only with a new
// signature of the supervisor.
func (r *redirected) undrained(l *liar, lied func(string, func(string, any) any, ...string), wants func(string, func(string, any) any, int, string, ...string)) {
	r.T.Helper()
	const datacenters, verified = "/v1/datacenters/", "node witness is drained\nverified: signed by the supervisor"
	drain := []string{"node", "drain", "witness", "--wait", "--timeout", "20s"}
	var drained map[string]any
	wants("an honest drain", at(datacenters, func(o map[string]any) any { drained = o; return o }), 0, verified, drain...)
	r.again(writ.ExitDone, "node", "uncordon", "witness")
	said := set("scheduling", func(any) any { return "drained" })
	l.keep(true)
	l.lies(said)
	r.Try(append(drain, "--server", l.URL)...)
	if kept := l.keep(false); len(kept) == 0 {
		r.T.Error("no statement was signed for a node that the coordinator reports as drained")
	}
	lied("drained with the standing from before", func(path string, answer any) any {
		return at(datacenters, func(map[string]any) any { return drained })(path, said(path, answer))
	}, drain...)
	lied("drained without a standing", at(datacenters, stripped), drain...)
	older := at(datacenters, unsupported)
	wants("an older supervisor", older, writ.ExitUsage, "add --fingerprint", drain...)
	wants("an older supervisor", older, writ.ExitFailed, "VERB_UNSUPPORTED", append(slices.Clone(drain), "--fingerprint", "PRINT:witness")...)
	wants("an honest answer about a drained node", nil, 0, verified, drain...)
	r.again(writ.ExitDone, "node", "uncordon", "witness")
}
