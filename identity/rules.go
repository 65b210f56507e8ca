package identity

import (
	"slices"

	"writ"
	"writ/identity/sshsig"
)

// Action is an action that a right can allow.
type Action string

// The actions.
const (
	ActionRead        Action = "read"         // read a project and its contents
	ActionSubmit      Action = "submit"       // submit a script
	ActionDestroy     Action = "destroy"      // submit a script with `destructive: yes`
	ActionControlRuns Action = "control-runs" // cancel and resume runs, hold and release projects and deployments
	// ActionScheduleNodes permits cordoning, uncordoning, draining and labelling nodes, and holding and releasing a
	// datacenter or operations.
	ActionScheduleNodes Action = "schedule-nodes"
	// ActionAdmitNodes permits approving, rejecting and removing nodes, declaring nodes lost, creating and revoking
	// batches, and revoking certificates of a datacenter.
	ActionAdmitNodes    Action = "admit-nodes"
	ActionCreateTokens  Action = "create-tokens"  // create and revoke join tokens
	ActionManageSecrets Action = "manage-secrets" // set and remove secrets
	ActionGovern        Action = "govern"         // sign rosters
)

// Role is a set of actions that a binding gives to a principal.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Deployer Role = "deployer"
	Admin    Role = "admin"
)

// RoleActions lists the actions that each role allows. With the destructive flag, a binding also allows a deployer
// ActionDestroy. No role allows ActionGovern: the roster lists its root operators.
var RoleActions = map[Role][]Action{
	Viewer:   {ActionRead},
	Operator: {ActionRead, ActionControlRuns, ActionScheduleNodes},
	Deployer: {ActionRead, ActionSubmit, ActionControlRuns},
	Admin:    {ActionRead, ActionScheduleNodes, ActionAdmitNodes, ActionCreateTokens, ActionManageSecrets},
}

// Rule describes a kind of signed text: its namespace, and the right to sign it. The supervisor of the datacenter named
// in the text accepts or rejects the text. Each verifier accepts or rejects a roster itself.
type Rule struct {
	Namespace sshsig.Namespace
	Kind      string // kind of a statement's subject
	Decision  string // decision of a statement
	Action    Action // required action; a roster needs a threshold of signers with it
	Project   bool   // a binding to the subject's project suffices; otherwise it must be to all projects

	validID     func(id string) bool
	about       about                             // fields of Seen that the statement contains
	checkParams func(s *Statement) error          // nil if the decision has no parameters
	projectOf   func(s *Statement) writ.ProjectID // nil if the statement does not contain its project
}

// DecisionLost declares that a node never returns. It releases the names of the node's resources.
const DecisionLost = "lost"

// DecisionRotate revokes all certificates that a datacenter has issued so far.
const DecisionRotate = "rotate"

// The fields of Seen in a statement about each kind of subject. They are empty for a token or batch, because the
// "create" statement describes the new subject in its parameters.
var (
	ofDatacenter = about{name: writ.ValidName}
	ofRun        = about{name: filePattern.MatchString, project: true}
	ofFailedRun  = about{name: filePattern.MatchString, project: true, revision: true}
	ofNode       = about{name: writ.ValidName, fingerprint: true, revision: true}
	ofSecret     = about{project: true, revision: true}
	ofWork       = about{name: writ.ValidName, revision: true}
	ofItsWork    = about{project: true, revision: true}
	ofOperation  = about{revision: true}
	ofRuns       = about{project: true} // the parameters contain the signer's view of each run
)

const statement = sshsig.StatementNamespace

// Rules lists all kinds of signed texts.
var Rules = []Rule{
	{Namespace: sshsig.ScriptNamespace, Action: ActionSubmit, Project: true},
	{Namespace: sshsig.RosterNamespace, Action: ActionGovern},
	{statement, "run", "cancel", ActionControlRuns, true, validRunID, ofRun, nil, nil},
	{statement, "run", "resume", ActionControlRuns, true, validRunID, ofFailedRun, nil, nil},
	{statement, "node", "approve", ActionAdmitNodes, false, writ.ValidUUID, ofNode, nil, nil},
	{statement, "node", "reject", ActionAdmitNodes, false, writ.ValidUUID, ofNode, nil, nil},
	{statement, "node", "remove", ActionAdmitNodes, false, writ.ValidUUID, ofNode, nil, nil},
	{statement, "node", DecisionLost, ActionAdmitNodes, false, writ.ValidUUID, ofNode, nil, nil},
	{statement, "node", "cordon", ActionScheduleNodes, false, writ.ValidUUID, ofNode, nil, nil},
	{statement, "node", "uncordon", ActionScheduleNodes, false, writ.ValidUUID, ofNode, nil, nil},
	{statement, "node", "drain", ActionScheduleNodes, false, writ.ValidUUID, ofNode, nil, nil},
	{statement, "node", DecisionLabel, ActionScheduleNodes, false, writ.ValidUUID, ofNode, checks(ParseLabelChange), nil},
	{statement, "token", "create", ActionCreateTokens, false, ValidTokenID, about{}, checks(ParseTokenGrant), nil},
	{statement, "token", DecisionRevoke, ActionCreateTokens, false, ValidTokenID, about{}, nil, nil},
	{statement, "batch", "create", ActionAdmitNodes, false, ValidTokenID, about{}, checks(ParseBatch), nil},
	{statement, "batch", DecisionRevoke, ActionAdmitNodes, false, ValidTokenID, about{}, nil, nil},
	{statement, "datacenter", DecisionRotate, ActionAdmitNodes, false, writ.ValidUUID, ofDatacenter, nil, nil},
	{
		statement, "secret", DecisionSetSecret, ActionManageSecrets, true, writ.ValidName, ofSecret,
		checks(ParseSecretChange), projectOfSecret,
	},
	{
		statement, "secret", DecisionRemoveSecret, ActionManageSecrets, true, writ.ValidName, ofSecret,
		checks(ParseSecretChange), projectOfSecret,
	},
	{statement, "datacenter", DecisionHold, ActionScheduleNodes, false, writ.ValidUUID, ofWork, nil, nil},
	{statement, "datacenter", DecisionRelease, ActionScheduleNodes, false, writ.ValidUUID, ofWork, nil, nil},
	{statement, "operation", DecisionHold, ActionScheduleNodes, false, writ.ValidWork, ofOperation, nil, nil},
	{statement, "operation", DecisionRelease, ActionScheduleNodes, false, writ.ValidWork, ofOperation, nil, nil},
	{statement, "project", DecisionHold, ActionControlRuns, true, writ.ValidUUID, ofItsWork, nil, projectOfSeen},
	{statement, "project", DecisionRelease, ActionControlRuns, true, writ.ValidUUID, ofItsWork, nil, projectOfSeen},
	{
		statement, "project", DecisionCancelRuns, ActionControlRuns, true, writ.ValidUUID, ofRuns,
		checks(ParseRunList), projectOfSeen,
	},
	{
		statement, "project", DecisionResumeRuns, ActionControlRuns, true, writ.ValidUUID, ofRuns,
		checks(ParseRunList), projectOfSeen,
	},
	{statement, "deployment", DecisionHold, ActionControlRuns, true, writ.ValidName, ofItsWork, nil, projectOfSeen},
	{statement, "deployment", DecisionRelease, ActionControlRuns, true, writ.ValidName, ofItsWork, nil, projectOfSeen},
}

// checks returns a check of a statement's parameters. The check calls parse and returns its error.
func checks[T any](parse func(s *Statement) (T, error)) func(s *Statement) error {
	return func(s *Statement) error {
		_, err := parse(s)
		return err
	}
}

// RuleOf returns the rule for a namespace, kind and decision.
func RuleOf(namespace sshsig.Namespace, kind, decision string) (Rule, bool) {
	i := slices.IndexFunc(Rules, func(r Rule) bool {
		return r.Namespace == namespace && r.Kind == kind && r.Decision == decision
	})
	if i < 0 {
		return Rule{}, false
	}
	return Rules[i], true
}

func validRunID(id string) bool { return writ.RunID(id).Valid() }
