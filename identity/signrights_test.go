package identity

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity/sshsig"
	"writ/identity/target"
)

// destroyer is a deployer whose binding has the destructive flag.
const destroyer Role = "destroyer"

// signRights lists the roles that may sign each kind of text, bound to the text's project and bound to all projects. It
// is written by hand, and not derived from Rules and RoleActions. Roles in another project may sign none.
var signRights = map[string]struct{ ofProject, ofAll []Role }{
	"writ-script-v1":                      {[]Role{Deployer, destroyer}, []Role{Deployer, destroyer}},
	"writ-script-v1 that destroys":        {[]Role{destroyer}, []Role{destroyer}},
	"writ-script-v1 that destroys it all": {nil, []Role{destroyer}},
	"writ-roster-v1":                      {nil, nil}, // root operators
	"run cancel":                          {[]Role{Operator, Deployer, destroyer}, []Role{Operator, Deployer, destroyer}},
	"run resume":                          {[]Role{Operator, Deployer, destroyer}, []Role{Operator, Deployer, destroyer}},
	"node approve":                        {nil, []Role{Admin}},
	"node reject":                         {nil, []Role{Admin}},
	"node remove":                         {nil, []Role{Admin}},
	"node lost":                           {nil, []Role{Admin}},
	"node cordon":                         {nil, []Role{Operator, Admin}},
	"node uncordon":                       {nil, []Role{Operator, Admin}},
	"node drain":                          {nil, []Role{Operator, Admin}},
	"node label":                          {nil, []Role{Operator, Admin}},
	"token create":                        {nil, []Role{Admin}},
	"token revoke":                        {nil, []Role{Admin}},
	"batch create":                        {nil, []Role{Admin}},
	"batch revoke":                        {nil, []Role{Admin}},
	"datacenter rotate":                   {nil, []Role{Admin}},
	"datacenter hold":                     {nil, []Role{Operator, Admin}},
	"datacenter release":                  {nil, []Role{Operator, Admin}},
	"operation hold":                      {nil, []Role{Operator, Admin}},
	"operation release":                   {nil, []Role{Operator, Admin}},
	"project hold":                        {[]Role{Operator, Deployer, destroyer}, []Role{Operator, Deployer, destroyer}},
	"project release":                     {[]Role{Operator, Deployer, destroyer}, []Role{Operator, Deployer, destroyer}},
	"project cancel-runs":                 {[]Role{Operator, Deployer, destroyer}, []Role{Operator, Deployer, destroyer}},
	"project resume-runs":                 {[]Role{Operator, Deployer, destroyer}, []Role{Operator, Deployer, destroyer}},
	"deployment hold":                     {[]Role{Operator, Deployer, destroyer}, []Role{Operator, Deployer, destroyer}},
	"deployment release":                  {[]Role{Operator, Deployer, destroyer}, []Role{Operator, Deployer, destroyer}},
	"secret set":                          {[]Role{Admin}, []Role{Admin}},
	"secret remove":                       {[]Role{Admin}, []Role{Admin}},
}

// Each kind of text is signed by each role, bound to its project, to another project and to all, by a principal without
// a role, and by a root operator without one. A kind of text without a row fails the test.
//
// Promise: Readers and roles: Each role can sign exactly the texts that its rules allow.
// How: The code has one table of rules, the test a second one by hand; a text without a row fails the test.
func TestEveryRoleAtEverySignedText(t *testing.T) {
	roles := []Role{Viewer, Operator, Deployer, destroyer, Admin}
	if len(roles) != len(RoleActions)+1 {
		t.Fatalf("roles of the test = %v, roles = %v", roles, slices.Collect(maps.Keys(RoleActions)))
	}
	texts := map[string]func(v *Verifier) error{
		"writ-script-v1 that destroys": func(v *Verifier) error {
			return submits(t, v, func(p *Payload) { p.Targets = []string{"volume/web-0"} })
		},
		"writ-script-v1 that destroys it all": func(v *Verifier) error {
			return submits(t, v, func(p *Payload) { p.Targets = []string{target.Any} })
		},
	}
	for _, rule := range Rules {
		switch rule.Namespace {
		case sshsig.ScriptNamespace:
			texts[string(rule.Namespace)] = func(v *Verifier) error { return submits(t, v, func(*Payload) {}) }
		case sshsig.RosterNamespace:
			texts[string(rule.Namespace)] = func(v *Verifier) error { return v.Roster.Allows("bob", rule.Action, "", noon) }
		default:
			texts[rule.Kind+" "+rule.Decision] = func(v *Verifier) error {
				s := statementOf(rule)
				s.Signer = "bob"
				_, err := v.Statement(signText(t, testSigner("bob"), sshsig.StatementNamespace, s))
				return err
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(signRights)), slices.Sorted(maps.Keys(texts))); diff != "" {
		t.Fatalf("texts with a row (-), existing texts (+):\n%s", diff)
	}
	for name, by := range texts {
		rights := signRights[name]
		try := func(who string, may bool, bindings []Binding, operators ...string) {
			v := testVerifier(t)
			v.Roster.Bindings, v.Roster.Operators, v.Roster.UserVerification = bindings, operators, nil
			err := by(v)
			if refused := writ.CodeOf(err); (err == nil) != may || err != nil && refused != writ.CodeRoleMissing && refused != writ.CodeDestructiveDenied {
				t.Errorf("%s by %s: %v", name, who, err)
			}
		}
		try("nobody", false, nil, "alice")
		try("a root operator without a role", name == string(sshsig.RosterNamespace), nil, "bob")
		for _, role := range roles {
			for project, may := range map[writ.ProjectID]bool{
				shopID: slices.Contains(rights.ofProject, role), mailID: false, AllProjects: slices.Contains(rights.ofAll, role),
			} {
				b := Binding{Principal: "bob", Role: role, Project: project}
				if role == destroyer {
					b.Role, b.Destructive = Deployer, true
				}
				try(fmt.Sprintf("the %s of %s", role, project), may, []Binding{b}, "alice")
				b.Expires = noon
				try(fmt.Sprintf("the %s of %s, until now", role, project), false, []Binding{b}, "alice")
				b.Expires, b.Principal = time.Time{}, "frank"
				try(fmt.Sprintf("a person without the role %s of %s", role, project), false, []Binding{b}, "alice")
			}
		}
	}
}

// submits verifies a changed testPayload, signed by bob.
func submits(t *testing.T, v *Verifier, change func(p *Payload)) error {
	t.Helper()
	p := testPayload()
	p.Signer = "bob"
	change(p)
	_, err := v.Submission(signText(t, testSigner("bob"), sshsig.ScriptNamespace, p))
	return err
}

// statementOf returns a valid statement of alice for a rule. If it is about a project, the project is shop.
func statementOf(rule Rule) *Statement {
	ids := map[string]string{"run": string(testRun), "node": nodeID, "token": "aaaaaaaaaaaaa", "batch": "aaaaaaaaaaaaa", "secret": "db-password", "datacenter": nodeID,
		"project": string(shopID), "deployment": "web", "operation": "machine.create"}
	s := testStatement()
	s.Subject, s.Decision = rule.Kind+"/"+ids[rule.Kind], rule.Decision
	switch {
	case rule.Decision == DecisionLabel:
		LabelChange{map[string]string{"rack": "a1", "disk": "ssd"}, []string{"tier"}}.Statement(s, nodeID)
	case rule.Decision == DecisionSetSecret:
		SecretChange{shopID, s.ID(), 3, []byte("sealed")}.Statement(s)
	case rule.Decision == DecisionRemoveSecret && rule.Kind == "secret":
		SecretChange{shopID, s.ID(), 3, nil}.Statement(s)
	case rule.Decision == DecisionCancelRuns || rule.Decision == DecisionResumeRuns:
		testRuns(rule.Decision == DecisionResumeRuns).Statement(s)
	case rule.Kind == "batch" && rule.checkParams != nil:
		Batch{ID: s.ID(), Serials: []string{"4711", "4712"}, Most: 1, Until: noon.Add(time.Hour)}.Statement(s)
	case rule.checkParams != nil:
		TokenGrant{ID: s.ID(), Role: TokenRoleNode, Expires: noon.Add(time.Hour)}.Statement(s)
	}
	return seen(s)
}
