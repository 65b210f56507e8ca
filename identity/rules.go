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
	// ActionScheduleNodes permits to cordon, uncordon, drain and label nodes, hold and release a datacenter and
	// operations.
	ActionScheduleNodes Action = "schedule-nodes"
	// ActionAdmitNodes permits to approve, reject and remove nodes, create and revoke batches, and revoke certificates
	// of a datacenter.
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

// RoleActions lists the actions that each role allows. A binding with the destructive flag also lets a deployer
// destroy. No role allows to govern: the roster names its root operators.
var RoleActions = map[Role][]Action{
	Viewer:   {ActionRead},
	Operator: {ActionRead, ActionControlRuns, ActionScheduleNodes},
	Deployer: {ActionRead, ActionSubmit, ActionControlRuns},
	Admin:    {ActionRead, ActionScheduleNodes, ActionAdmitNodes, ActionCreateTokens, ActionManageSecrets},
}

// Decider is the party that makes the final decision about a signed text.
type Decider string

// The deciders. Other verifiers on the way may reject a text earlier.
const (
	DecidedBySupervisor Decider = "supervisor" // supervisor of the datacenter that the text names
	DecidedByEverybody  Decider = "everybody"  // each verifier decides for itself
)

// Rule describes a kind of signed text: its namespace, the right to sign it, and its decider.
type Rule struct {
	Namespace sshsig.Namespace
	Kind      string // kind of a statement's subject
	Decision  string // decision of a statement
	Action    Action // required action; a roster needs a threshold of signers with it
	Project   bool   // a binding to the subject's project suffices; otherwise it must be to all projects
	Decider   Decider

	validID     func(id string) bool
	about       about                             // the signer's view of the subject
	checkParams func(s *Statement) error          // nil if the decision has no parameters
	projectOf   func(s *Statement) writ.ProjectID // nil if the statement does not contain its project
}

// DecisionLost declares that a node never returns. It releases the names of the node's resources.
const DecisionLost = "lost"

// DecisionRotate revokes the certificates that a datacenter issued before.
const DecisionRotate = "rotate"

// The fields of Seen in a statement about each kind of subject. They are empty for a token or batch, because the
// "create" statement describes the new subject in its parameters.
var (
	ofRun       = about{name: filePattern.MatchString, project: true}
	ofFailedRun = about{name: filePattern.MatchString, project: true, revision: true}
	ofNode      = about{name: writ.ValidName, fingerprint: true, revision: true}
	ofSecret    = about{project: true, revision: true}
	ofWork      = about{name: writ.ValidName, revision: true}
	ofItsWork   = about{project: true, revision: true}
	ofOperation = about{revision: true}
	ofRuns      = about{project: true} // the parameters contain the signer's view of each run
)

// Rules lists all kinds of signed texts.
var Rules = []Rule{
	{sshsig.ScriptNamespace, "", "", ActionSubmit, true, DecidedBySupervisor, nil, about{}, nil, nil},
	{sshsig.RosterNamespace, "", "", ActionGovern, false, DecidedByEverybody, nil, about{}, nil, nil},
	{sshsig.StatementNamespace, "run", "cancel", ActionControlRuns, true, DecidedBySupervisor, validRunID, ofRun, nil, nil},
	{sshsig.StatementNamespace, "run", "resume", ActionControlRuns, true, DecidedBySupervisor, validRunID, ofFailedRun, nil, nil},
	{
		sshsig.StatementNamespace, "node", "approve", ActionAdmitNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, nil,
		nil,
	},
	{sshsig.StatementNamespace, "node", "reject", ActionAdmitNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, nil, nil},
	{sshsig.StatementNamespace, "node", "remove", ActionAdmitNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, nil, nil},
	{
		sshsig.StatementNamespace, "node", DecisionLost, ActionAdmitNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, nil,
		nil,
	},
	{
		sshsig.StatementNamespace, "node", "cordon", ActionScheduleNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, nil,
		nil,
	},
	{
		sshsig.StatementNamespace, "node", "uncordon", ActionScheduleNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, nil,
		nil,
	},
	{
		sshsig.StatementNamespace, "node", "drain", ActionScheduleNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, nil,
		nil,
	},
	{
		sshsig.StatementNamespace, "node", DecisionLabel, ActionScheduleNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode,
		checkLabelChange, nil,
	},
	{
		sshsig.StatementNamespace, "token", "create", ActionCreateTokens, false, DecidedBySupervisor, ValidTokenID, about{},
		checkTokenGrant, nil,
	},
	{
		sshsig.StatementNamespace, "token", DecisionRevoke, ActionCreateTokens, false, DecidedBySupervisor, ValidTokenID, about{},
		nil, nil,
	},
	{
		sshsig.StatementNamespace, "batch", "create", ActionAdmitNodes, false, DecidedBySupervisor, ValidTokenID, about{},
		checkBatch, nil,
	},
	{
		sshsig.StatementNamespace, "batch", DecisionRevoke, ActionAdmitNodes, false, DecidedBySupervisor, ValidTokenID, about{},
		nil, nil,
	},
	{
		sshsig.StatementNamespace, "datacenter", DecisionRotate, ActionAdmitNodes, false, DecidedBySupervisor, writ.ValidUUID,
		about{name: writ.ValidName}, nil, nil,
	},
	{
		sshsig.StatementNamespace, "secret", DecisionSetSecret, ActionManageSecrets, true, DecidedBySupervisor, writ.ValidName,
		ofSecret, checkSecretChange, projectOfSecret,
	},
	{
		sshsig.StatementNamespace, "secret", DecisionRemoveSecret, ActionManageSecrets, true, DecidedBySupervisor, writ.ValidName,
		ofSecret, checkSecretChange, projectOfSecret,
	},
	{
		sshsig.StatementNamespace, "datacenter", DecisionHold, ActionScheduleNodes, false, DecidedBySupervisor, writ.ValidUUID,
		ofWork, nil, nil,
	},
	{
		sshsig.StatementNamespace, "datacenter", DecisionRelease, ActionScheduleNodes, false, DecidedBySupervisor, writ.ValidUUID,
		ofWork, nil, nil,
	},
	{
		sshsig.StatementNamespace, "operation", DecisionHold, ActionScheduleNodes, false, DecidedBySupervisor, writ.ValidWork,
		ofOperation, nil, nil,
	},
	{
		sshsig.StatementNamespace, "operation", DecisionRelease, ActionScheduleNodes, false, DecidedBySupervisor, writ.ValidWork,
		ofOperation, nil, nil,
	},
	{
		sshsig.StatementNamespace, "project", DecisionHold, ActionControlRuns, true, DecidedBySupervisor, writ.ValidUUID, ofItsWork,
		nil, projectOfSeen,
	},
	{
		sshsig.StatementNamespace, "project", DecisionRelease, ActionControlRuns, true, DecidedBySupervisor, writ.ValidUUID,
		ofItsWork, nil, projectOfSeen,
	},
	{
		sshsig.StatementNamespace, "project", DecisionCancelRuns, ActionControlRuns, true, DecidedBySupervisor, writ.ValidUUID,
		ofRuns, checkRunList, projectOfSeen,
	},
	{
		sshsig.StatementNamespace, "project", DecisionResumeRuns, ActionControlRuns, true, DecidedBySupervisor, writ.ValidUUID,
		ofRuns, checkRunList, projectOfSeen,
	},
	{
		sshsig.StatementNamespace, "deployment", DecisionHold, ActionControlRuns, true, DecidedBySupervisor, writ.ValidName,
		ofItsWork, nil, projectOfSeen,
	},
	{
		sshsig.StatementNamespace, "deployment", DecisionRelease, ActionControlRuns, true, DecidedBySupervisor, writ.ValidName,
		ofItsWork, nil, projectOfSeen,
	},
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

func checkTokenGrant(s *Statement) error {
	_, err := ParseTokenGrant(s)
	return err
}
