package identity

import (
	"slices"

	"writ"
)

// Action is something that a right can allow.
type Action string

// The actions.
const (
	ActionRead          Action = "read"           // look at a project and at what is in it
	ActionSubmit        Action = "submit"         // hand in a script
	ActionDestroy       Action = "destroy"        // hand in a script that says `destructive: yes`
	ActionControlRuns   Action = "control-runs"   // cancel and resume runs, hold and release projects and deployments
	ActionScheduleNodes Action = "schedule-nodes" // cordon, uncordon, drain and label nodes, hold and release a datacenter and operations
	ActionAdmitNodes    Action = "admit-nodes"    // approve, reject and remove nodes, make and revoke batches, and end certificates of a datacenter
	ActionCreateTokens  Action = "create-tokens"  // make join tokens, and revoke them
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

// RoleActions says what each role allows. A binding with the destructive flag lets a deployer destroy besides. To govern is not a
// matter of roles: the roster names its root operators.
var RoleActions = map[Role][]Action{
	Viewer:   {ActionRead},
	Operator: {ActionRead, ActionControlRuns, ActionScheduleNodes},
	Deployer: {ActionRead, ActionSubmit, ActionControlRuns},
	Admin:    {ActionRead, ActionScheduleNodes, ActionAdmitNodes, ActionCreateTokens, ActionManageSecrets},
}

// Decider is who has the last word on a signed text.
type Decider string

// The deciders. Everybody on the way may verify too and refuse earlier.
const (
	DecidedBySupervisor Decider = "supervisor" // of the datacenter that the text names
	DecidedByEverybody  Decider = "everybody"  // each verifier for itself
)

// Rule says of one sort of signed text what namespace it is signed in, who may sign it and who decides on it.
type Rule struct {
	Namespace Namespace
	Kind      string // of the subject of a statement
	Decision  string // of a statement
	Action    Action // that the signer must be allowed; rosters need a threshold of those who are
	Project   bool   // the right may be bound to the subject's project; otherwise it must be bound to all of them
	Decider   Decider

	validID     func(id string) bool
	about       about                             // what the signer says of the subject
	checkParams func(s *Statement) error          // nil if the decision takes no parameters
	projectOf   func(s *Statement) writ.ProjectID // nil if the statement does not say its project itself
}

// DecisionLost says of a node that it never comes back, so that the names of what it had are free.
const DecisionLost = "lost"

// DecisionRotate says of a datacenter that certificates which were issued there before do not count any more.
const DecisionRotate = "rotate"

// What statements say of their subjects. A token or batch is made by its signer, who says all of it in the parameters.
var (
	ofRun       = about{name: filePattern.MatchString, project: true}
	ofFailedRun = about{name: filePattern.MatchString, project: true, revision: true}
	ofNode      = about{name: writ.ValidName, fingerprint: true, revision: true}
	ofSecret    = about{project: true, revision: true}
	ofWork      = about{name: writ.ValidName, revision: true}
	ofItsWork   = about{project: true, revision: true}
	ofOperation = about{revision: true}
	ofRuns      = about{project: true} // what was seen of each run is with it in the parameters
)

// Rules is the one table of signed texts.
var Rules = []Rule{
	{ScriptNamespace, "", "", ActionSubmit, true, DecidedBySupervisor, nil, about{}, nil, nil},
	{RosterNamespace, "", "", ActionGovern, false, DecidedByEverybody, nil, about{}, nil, nil},
	{StatementNamespace, "run", "cancel", ActionControlRuns, true, DecidedBySupervisor, validRunID, ofRun, nil, nil},
	{StatementNamespace, "run", "resume", ActionControlRuns, true, DecidedBySupervisor, validRunID, ofFailedRun, nil, nil},
	{StatementNamespace, "node", "approve", ActionAdmitNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, nil, nil},
	{StatementNamespace, "node", "reject", ActionAdmitNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, nil, nil},
	{StatementNamespace, "node", "remove", ActionAdmitNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, nil, nil},
	{StatementNamespace, "node", DecisionLost, ActionAdmitNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, nil, nil},
	{StatementNamespace, "node", "cordon", ActionScheduleNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, nil, nil},
	{StatementNamespace, "node", "uncordon", ActionScheduleNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, nil, nil},
	{StatementNamespace, "node", "drain", ActionScheduleNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, nil, nil},
	{StatementNamespace, "node", DecisionLabel, ActionScheduleNodes, false, DecidedBySupervisor, writ.ValidUUID, ofNode, checkLabelChange, nil},
	{StatementNamespace, "token", "create", ActionCreateTokens, false, DecidedBySupervisor, ValidTokenID, about{}, checkTokenGrant, nil},
	{StatementNamespace, "token", DecisionRevoke, ActionCreateTokens, false, DecidedBySupervisor, ValidTokenID, about{}, nil, nil},
	{StatementNamespace, "batch", "create", ActionAdmitNodes, false, DecidedBySupervisor, ValidTokenID, about{}, checkBatch, nil},
	{StatementNamespace, "batch", DecisionRevoke, ActionAdmitNodes, false, DecidedBySupervisor, ValidTokenID, about{}, nil, nil},
	{StatementNamespace, "datacenter", DecisionRotate, ActionAdmitNodes, false, DecidedBySupervisor, writ.ValidUUID, about{name: writ.ValidName}, nil, nil},
	{StatementNamespace, "secret", DecisionSetSecret, ActionManageSecrets, true, DecidedBySupervisor, writ.ValidName, ofSecret, checkSecretChange, projectOfSecret},
	{StatementNamespace, "secret", DecisionRemoveSecret, ActionManageSecrets, true, DecidedBySupervisor, writ.ValidName, ofSecret, checkSecretChange, projectOfSecret},
	{StatementNamespace, "datacenter", DecisionHold, ActionScheduleNodes, false, DecidedBySupervisor, writ.ValidUUID, ofWork, nil, nil},
	{StatementNamespace, "datacenter", DecisionRelease, ActionScheduleNodes, false, DecidedBySupervisor, writ.ValidUUID, ofWork, nil, nil},
	{StatementNamespace, "operation", DecisionHold, ActionScheduleNodes, false, DecidedBySupervisor, validOperation, ofOperation, nil, nil},
	{StatementNamespace, "operation", DecisionRelease, ActionScheduleNodes, false, DecidedBySupervisor, validOperation, ofOperation, nil, nil},
	{StatementNamespace, "project", DecisionHold, ActionControlRuns, true, DecidedBySupervisor, writ.ValidUUID, ofItsWork, nil, projectOfSeen},
	{StatementNamespace, "project", DecisionRelease, ActionControlRuns, true, DecidedBySupervisor, writ.ValidUUID, ofItsWork, nil, projectOfSeen},
	{StatementNamespace, "project", DecisionCancelRuns, ActionControlRuns, true, DecidedBySupervisor, writ.ValidUUID, ofRuns, checkRunList, projectOfSeen},
	{StatementNamespace, "project", DecisionResumeRuns, ActionControlRuns, true, DecidedBySupervisor, writ.ValidUUID, ofRuns, checkRunList, projectOfSeen},
	{StatementNamespace, "deployment", DecisionHold, ActionControlRuns, true, DecidedBySupervisor, writ.ValidName, ofItsWork, nil, projectOfSeen},
	{StatementNamespace, "deployment", DecisionRelease, ActionControlRuns, true, DecidedBySupervisor, writ.ValidName, ofItsWork, nil, projectOfSeen},
}

// RuleOf finds a row of the table.
func RuleOf(namespace Namespace, kind, decision string) (Rule, bool) {
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
