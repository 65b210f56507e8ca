package writ

import "strings"

// Code is the stable name of an error. Scripts, pipelines and the manual rely on it. Diagnostics with a span in a
// script's source are W0001 to W9999 and belong to package scripts/diagnostic; all other codes are in the table below.
type Code string

// Kind is how the caller can react to an error.
type Kind string

// The kinds.
const (
	Invalid     Kind = "invalid"     // fix the request
	Denied      Kind = "denied"      // ask for a right, or sign properly
	NotFound    Kind = "not_found"   // missing, or hidden from the caller
	Conflict    Kind = "conflict"    // reload, then decide
	Unavailable Kind = "unavailable" // cannot be done or confirmed now; try again later
	Failed      Kind = "failed"      // the work was tried and failed
	Internal    Kind = "internal"    // a defect; the operator has the details
)

// Exit codes of the command line. Scripts depend on them.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitDenied      = 3
	ExitNotFound    = 4
	ExitConflict    = 5
	ExitTimeout     = 6 // the wait ended; the work continues unless --cancel-on-exit cancels it
	ExitPlanChanges = 7
	ExitUnreachable = 8
	ExitRemoved     = 9 // a runner whose node was removed from the datacenter; a restart does not help
	ExitUnverified  = 9 // a command whose answer from the coordinator lacks a supervisor's signature
	// ExitPlanUnplaced is the exit code of `writ plan` if a call has no suitable node now.
	ExitPlanUnplaced = 10
	ExitInterrupted  = 130
)

// The error codes. Each has one row in Codes.
const (
	CodeInternal         Code = "INTERNAL"
	CodeBadRequest       Code = "BAD_REQUEST"
	CodeUsage            Code = "USAGE"
	CodeMethodNotAllowed Code = "METHOD_NOT_ALLOWED"
	CodeNotFound         Code = "NOT_FOUND"
	CodeConflict         Code = "CONFLICT"
	CodeTimeout          Code = "TIMEOUT"
	CodeUnreachable      Code = "UNREACHABLE"

	CodeTooLarge               Code = "TOO_LARGE"
	CodePayloadMalformed       Code = "PAYLOAD_MALFORMED"
	CodeFormatTooOld           Code = "FORMAT_TOO_OLD"
	CodeSignatureMalformed     Code = "SIGNATURE_MALFORMED"
	CodeSignatureAlgorithm     Code = "SIGNATURE_ALGORITHM"
	CodeSignatureNamespace     Code = "SIGNATURE_NAMESPACE"
	CodeSignatureInvalid       Code = "SIGNATURE_INVALID"
	CodeUnverified             Code = "UNVERIFIED"
	CodeNotAdopted             Code = "NOT_ADOPTED"
	CodeSignerUnknown          Code = "SIGNER_UNKNOWN"
	CodeSignerRevoked          Code = "SIGNER_REVOKED"
	CodeRoleMissing            Code = "ROLE_MISSING"
	CodeDestructiveDenied      Code = "DESTRUCTIVE_DENIED"
	CodeWrongCluster           Code = "WRONG_CLUSTER"
	CodeWrongDatacenter        Code = "WRONG_DATACENTER"
	CodeProjectUnknown         Code = "PROJECT_UNKNOWN"
	CodeEngineUnsupported      Code = "ENGINE_UNSUPPORTED"
	CodeExpired                Code = "EXPIRED"
	CodeNotYetValid            Code = "NOT_YET_VALID"
	CodeRosterTooOld           Code = "ROSTER_TOO_OLD"
	CodeRosterInvalid          Code = "ROSTER_INVALID"
	CodeRosterFork             Code = "ROSTER_FORK"
	CodeTokenInvalid           Code = "TOKEN_INVALID"
	CodeTokenSpent             Code = "TOKEN_SPENT"
	CodeKeyUnusable            Code = "KEY_UNUSABLE"
	CodeLoginRequired          Code = "LOGIN_REQUIRED"
	CodeLoginRefused           Code = "LOGIN_REFUSED"
	CodeCertificateUntrusted   Code = "CERTIFICATE_UNTRUSTED"
	CodeCertificateExpired     Code = "CERTIFICATE_EXPIRED"
	CodeCertificateNotYetValid Code = "CERTIFICATE_NOT_YET_VALID"
	CodeCertificateRevoked     Code = "CERTIFICATE_REVOKED"
	CodeCertificateRole        Code = "CERTIFICATE_ROLE"
	CodeListenRefused          Code = "LISTEN_REFUSED"
	CodeHostUnknown            Code = "HOST_UNKNOWN"
	CodeOriginForeign          Code = "ORIGIN_FOREIGN"
	CodeRateLimited            Code = "RATE_LIMITED"
	CodeTooManyWatchers        Code = "TOO_MANY_WATCHERS"
	CodeDatacenterUnknown      Code = "DATACENTER_UNKNOWN"
	CodeDatacenterAway         Code = "DATACENTER_UNAVAILABLE"
	CodeVerbUnsupported        Code = "VERB_UNSUPPORTED"
	CodeExecError              Code = "EXEC_ERROR"
	CodeStoreUnavailable       Code = "STORE_UNAVAILABLE"
	CodeStoreFull              Code = "STORE_FULL"
	CodeStoreReadOnly          Code = "STORE_READ_ONLY"
	CodeStoreDamaged           Code = "STORE_DAMAGED"
	CodeDataIncomplete         Code = "DATA_INCOMPLETE"
	CodeDataUnsafe             Code = "DATA_UNSAFE"
	CodeQueueUnavailable       Code = "QUEUE_UNAVAILABLE"
	CodeQueueBudget            Code = "QUEUE_BUDGET"
	CodeScriptInvalid          Code = "SCRIPT_INVALID"
	CodeScriptFailed           Code = "SCRIPT_FAILED"
	CodeScriptLimit            Code = "SCRIPT_LIMIT"
	CodeNonDeterminism         Code = "NON_DETERMINISM"
	CodeEvaluatorCrashed       Code = "EVALUATOR_CRASHED"
	CodePlanMismatch           Code = "PLAN_MISMATCH"
	CodePlanDeviated           Code = "PLAN_DEVIATED"
	CodeOperationNotAllowed    Code = "OPERATION_NOT_ALLOWED"
	CodeArgumentsInvalid       Code = "ARGUMENTS_INVALID"
	CodeDependencyFailed       Code = "DEPENDENCY_FAILED"
	CodeRunCancelled           Code = "RUN_CANCELLED"
	CodeRunExpired             Code = "RUN_EXPIRED"
	CodeRunLost                Code = "RUN_LOST"
	CodeDeadlineExceeded       Code = "DEADLINE_EXCEEDED"
	CodeOutcomeUnknown         Code = "OUTCOME_UNKNOWN"
	CodeNodeLost               Code = "NODE_LOST"
	CodeNodeStore              Code = "NODE_STORE_UNAVAILABLE"
	CodeClockSkew              Code = "CLOCK_SKEW"
	CodeEpochAhead             Code = "EPOCH_AHEAD"
	CodeNodeCopied             Code = "NODE_COPIED"
	CodeAttemptGivenUp         Code = "TRY_GIVEN_UP"
	CodeNodeRejected           Code = "NODE_REJECTED"
	CodeEpochInvalid           Code = "EPOCH_INVALID"
	CodeNoCapacity             Code = "NO_CAPACITY"
	CodeResourceUnknown        Code = "RESOURCE_UNKNOWN"
	CodeResourceConflict       Code = "RESOURCE_CONFLICT"
	CodeResourceBusy           Code = "RESOURCE_BUSY"
	CodePortClosed             Code = "PORT_CLOSED"
	CodePortTaken              Code = "PORT_TAKEN"
	CodeDeviceForbidden        Code = "DEVICE_FORBIDDEN"
	CodeRecordDamaged          Code = "RECORD_DAMAGED"
	CodeRecordForged           Code = "RECORD_FORGED"
	CodeNotOwner               Code = "NOT_OWNER"
	CodeResourceInUse          Code = "RESOURCE_IN_USE"
	CodeImmutableField         Code = "IMMUTABLE_FIELD"
	CodeDriverMissing          Code = "DRIVER_MISSING"
	CodeDriverFailed           Code = "DRIVER_FAILED"
	CodeDriverRefused          Code = "DRIVER_REFUSED"
	CodeQuotaExceeded          Code = "QUOTA_EXCEEDED"
	CodeDiskFull               Code = "DISK_FULL"
	CodeChecksumMismatch       Code = "CHECKSUM_MISMATCH"
	CodeImageUnknown           Code = "IMAGE_UNKNOWN"
	CodeImageGone              Code = "IMAGE_GONE"
	CodeImageUnresolved        Code = "IMAGE_UNRESOLVED"
	CodeImagePlatform          Code = "IMAGE_PLATFORM"
	CodeRegistryDenied         Code = "REGISTRY_DENIED"
	CodeRegistryLogin          Code = "REGISTRY_LOGIN"
	CodeRegistryForbidden      Code = "REGISTRY_FORBIDDEN"
	CodeRegistryBusy           Code = "REGISTRY_BUSY"
	CodeSecretUnknown          Code = "SECRET_UNKNOWN"
	CodeSecretUnreadable       Code = "SECRET_UNREADABLE"
	CodeUnhealthy              Code = "UNHEALTHY"
	CodeProgramFailed          Code = "PROGRAM_FAILED"
	CodeFileTooLarge           Code = "FILE_TOO_LARGE"
	CodeInjected               Code = "INJECTED"
	CodeInjectedFinal          Code = "INJECTED_FINAL"
)

// CodeInfo is a row of Codes.
type CodeInfo struct {
	Code      Code
	Kind      Kind
	Retryable bool   // the same request may succeed later
	Status    int    // HTTP status
	Exit      int    // exit code of the command line
	Meaning   string // one or more sentences
	Remedy    string // what the reader can do; empty if unknown, or if each error's message has it
}

// Explain returns the meaning and the remedy of the code.
func (c CodeInfo) Explain() string { return strings.TrimSpace(c.Meaning + " " + c.Remedy) }

// Codes lists every code once.
var Codes = []CodeInfo{
	{
		CodeInternal, Internal, false, 500, ExitFailed, "An internal error.",
		"The log of the process that answered has the details, under the request id.",
	},
	{
		CodeBadRequest, Invalid, false, 400, ExitUsage,
		"The request does not match the API description; the message names the place.", "",
	},
	{
		CodeMethodNotAllowed, Invalid, false, 405, ExitUsage,
		"The address does not support this HTTP method. The header Allow lists the supported methods.", "",
	},
	{
		CodeUsage, Invalid, false, 400, ExitUsage, "The command line is invalid.",
		"`--help` shows the flags and arguments of the command.",
	},
	{CodeNotFound, NotFound, false, 404, ExitNotFound, "No object has this name or id.", ""},
	{
		CodeConflict, Conflict, false, 409, ExitConflict, "The object has changed in the meantime.",
		"Look at the object again, then decide.",
	},
	{
		CodeTimeout, Unavailable, true, 504, ExitTimeout,
		"The answer did not arrive in time; work that has started continues, unless `--cancel-on-exit` cancels it.", "",
	},
	{
		CodeUnreachable, Unavailable, true, 503, ExitUnreachable, "No server answered.",
		"Check the address, and whether the process runs (`writ doctor`).",
	},

	{
		CodeTooLarge, Invalid, false, 413, ExitUsage, "A text, file, list or request is too large. The limits include 512 KiB for a submission, 8 KiB for a header line, 64 KiB for `params` and 32 KiB for a secret.",
		"Put large data of a script into images or volumes.",
	},
	{
		CodePayloadMalformed, Invalid, false, 400, ExitDenied,
		"The signed text does not have the exact form that writ writes.",
		"Create the text with `writ payload` or `writ sign`, and do not edit it.",
	},
	{
		CodeFormatTooOld, Invalid, false, 400, ExitDenied, "The text was signed in an old format that lacks information.",
		"Upgrade writ on the machine that signs, and sign again.",
	},
	{
		CodeSignatureMalformed, Invalid, false, 400, ExitDenied, "There is no valid SSH signature at the end of the text.",
		"Append the signature to the text: `cat payload payload.sig`.",
	},
	{
		CodeSignatureAlgorithm, Denied, false, 403, ExitDenied,
		"Only ssh-ed25519 and sk-ssh-ed25519@openssh.com keys are accepted, with sha512.",
		"Create a key with `ssh-keygen -t ed25519`.",
	},
	{
		CodeSignatureNamespace, Denied, false, 403, ExitDenied, "The text was signed for another purpose.",
		"Scripts are signed with `-n writ-script-v1`.",
	},
	{
		CodeSignatureInvalid, Denied, false, 403, ExitDenied,
		"The signature does not match the text: one of the two was changed after signing.", "",
	},
	{
		CodeUnverified, Failed, false, 502, ExitUnverified,
		"The coordinator's answer has no signature of a supervisor, so it is not verified.",
		"Ask another coordinator with `--server`, or read the supervisor's log, and inform the coordinator's operator. Upgrade supervisors of earlier versions: they sign no answers.",
	},
	{
		CodeNotAdopted, Unavailable, true, 504, ExitTimeout, "The roster is in force, but not every datacenter has signed its adoption. A datacenter adopts the roster when it is connected.",
		"`writ roster show` lists the adoptions.",
	},
	{
		CodeSignerUnknown, Denied, false, 403, ExitDenied, "The roster lacks the signing key under the signer's name.",
		"A root operator adds a key with `writ user add`.",
	},
	{CodeSignerRevoked, Denied, false, 403, ExitDenied, "The key or its owner was revoked in the roster.", ""},
	{
		CodeRoleMissing, Denied, false, 403, ExitDenied, "The signer has no role that allows this action in the project.",
		"A root operator can add a role with `writ user add --role`.",
	},
	{
		CodeDestructiveDenied, Denied, false, 403, ExitDenied,
		"The script may delete or overwrite data, but its header has `destructive: no`, or its signer has no binding with the destructive flag.", "",
	},
	{CodeWrongCluster, Denied, false, 403, ExitDenied, "The text was signed for another cluster.", ""},
	{CodeWrongDatacenter, Denied, false, 403, ExitDenied, "The text was signed for another datacenter.", ""},
	{
		CodeProjectUnknown, Denied, false, 403, ExitNotFound, "The roster has no project with this id and name.",
		"A root operator adds a project with `writ project add`.",
	},
	{
		CodeEngineUnsupported, Invalid, false, 422, ExitDenied,
		"The script was signed for an engine that the verifying program does not have.",
		"Sign the script again with a client of the same version as the supervisor.",
	},
	{CodeExpired, Denied, false, 403, ExitDenied, "The signed text has expired (`expires`).", "Sign the text again."},
	{
		CodeNotYetValid, Denied, true, 403, ExitDenied, "The creation time of the signed text is in the future.",
		"Set the clock of the machine that signed the text.",
	},
	{
		CodeRosterTooOld, Unavailable, true, 503, ExitUnreachable,
		"The verifier's roster has expired, or the signer has a newer roster.",
		"Wait until the verifier has the newer roster. A root operator replaces an expired roster.",
	},
	{
		CodeRosterInvalid, Denied, false, 403, ExitDenied,
		"The roster is not a valid successor of the previous one, or lacks signatures of root operators.", "",
	},
	{
		CodeRosterFork, Denied, false, 403, ExitDenied,
		"The signer and the verifier have seen different rosters with the same version number.",
		"Keep both rosters as evidence. Only the root operators can sign a recovery version.",
	},
	{
		CodeTokenInvalid, Denied, false, 403, ExitDenied,
		"The join token is unknown, expired, revoked or meant for another purpose, or its proof is wrong.",
		"Create a token with `writ token create`.",
	},
	{
		CodeTokenSpent, Denied, false, 403, ExitDenied,
		"The join token has admitted its maximum number of nodes: one, or the number set by its creator.",
		"Create another token with `writ token create`.",
	},
	{
		CodeKeyUnusable, Denied, false, 403, ExitDenied,
		"The signing key cannot be used: it is missing, locked or of another type, or the agent refused it.", "",
	},
	{
		CodeLoginRequired, Denied, true, 401, ExitDenied, "Reading needs a login, which is missing or has ended.",
		"Commands log in automatically with your SSH key. `writ login --web` opens the dashboard.",
	},
	{
		CodeLoginRefused, Denied, false, 403, ExitDenied,
		"The login was signed for another coordinator or address, is too old, or was used before.",
		"Log in again. If this repeats, an attacker between you and the coordinator may be replaying your signatures.",
	},
	{
		CodeCertificateUntrusted, Denied, false, 403, ExitDenied,
		"The peer of a TLS connection has a certificate that no key of the roster issued. The address is wrong, or another server answers at this address.", "",
	},
	{
		CodeCertificateExpired, Denied, true, 403, ExitDenied, "The peer's TLS certificate has expired.",
		"Running processes renew their certificates: compare the clocks of both machines, then restart the other process.",
	},
	{
		CodeCertificateNotYetValid, Denied, true, 403, ExitDenied,
		"The peer's TLS certificate is not valid yet. The clock of one of the two machines is wrong.", "",
	},
	{
		CodeCertificateRevoked, Denied, true, 403, ExitDenied,
		"The authority that issued the peer's TLS certificate was replaced (`writ pki rotate`).",
		"The peer renews its certificate automatically; otherwise restart the peer.",
	},
	{
		CodeCertificateRole, Denied, false, 403, ExitDenied,
		"The certificate belongs to a process that was not expected at this address: another role, datacenter or node.", "",
	},
	{
		CodeListenRefused, Denied, false, 403, ExitDenied,
		"A daemon cannot listen at this address: the port is in use, or other machines could reach the daemon without TLS and a login.",
		"Use a free port, or a loopback address. `writ init --coordinator https://HOST:PORT` creates a cluster whose coordinator serves other machines.",
	},
	{
		CodeHostUnknown, Denied, false, 421, ExitDenied, "The request names a host that is not this server.",
		"Use the server's address, or restart the server with `--allowed-host NAME`.",
	},
	{
		CodeOriginForeign, Denied, false, 403, ExitDenied, "A page of another site made the browser send the request.",
		"Open the dashboard at its own address.",
	},
	{
		CodeRateLimited, Unavailable, true, 429, ExitUnreachable, "Too many requests at the same time or in a short time.",
		"Wait before the next request: the HTTP header Retry-After has the time.",
	},
	{
		CodeTooManyWatchers, Unavailable, true, 503, ExitUnreachable, "Too many event streams are open.",
		"Close some event streams, or start the coordinator with a higher `--max-streams`.",
	},
	{
		CodeDatacenterUnknown, NotFound, false, 404, ExitNotFound, "No datacenter has this id or name.",
		"`writ dc list` lists the datacenters.",
	},
	{
		CodeDatacenterAway, Unavailable, true, 503, ExitUnreachable,
		"The datacenter's supervisor is not connected, or the roster disables the datacenter. Submissions wait for the supervisor until they expire. Requests that need the supervisor's answer fail.", "",
	},
	{
		CodeVerbUnsupported, Invalid, false, 501, ExitFailed,
		"The supervisor or coordinator has an older version that does not support this request.",
		"Upgrade the older supervisor or coordinator.",
	},
	{
		CodeExecError, Failed, false, 502, ExitFailed,
		"The datacenter's supervisor could not execute the request; the message has the reason.", "",
	},
	{
		CodeStoreUnavailable, Unavailable, true, 503, ExitUnreachable,
		"The store cannot be written: it is missing or does not answer.",
		"Work continues automatically when the store answers.",
	},
	{
		CodeStoreFull, Unavailable, true, 503, ExitUnreachable, "The store cannot be written because its disk is full.",
		"Free disk space; work continues automatically.",
	},
	{
		CodeStoreReadOnly, Unavailable, true, 503, ExitUnreachable,
		"The store cannot be written because its file, disk or server is read-only.",
		"Make the store writable; work continues automatically.",
	},
	{
		CodeStoreDamaged, Failed, false, 502, ExitFailed, "The data of a store is damaged.",
		"Stop the daemon of the store, keep the damaged file, and restore the data directory from a backup: `writ restore --data DIR BACKUP`. A node has no backup: remove the node, and let it join again.",
	},
	{
		CodeDataIncomplete, Conflict, false, 409, ExitConflict,
		"In the data directory, a file that the daemon creates only once is missing, damaged or from another process.",
		"Restore the data directory from a backup; docs/manual/runbook.md describes the steps without a backup.",
	},
	{
		CodeDataUnsafe, Conflict, false, 409, ExitConflict,
		"The data directory is in memory or on a network file system, where a daemon can lose its records.",
		"Stop the daemon, move the data directory to a local disk, and name the directory with `--data`.",
	},
	{
		CodeQueueUnavailable, Unavailable, true, 503, ExitUnreachable, "Redis does not answer.",
		"Work waits in the journal and continues automatically when Redis is back.",
	},
	{
		CodeQueueBudget, Unavailable, true, 429, ExitUnreachable, "The node has too many messages, unreadable messages or too many connections in Redis. The node's messages were removed, and its account is blocked for a while.",
		"If the node's runner is not the cause, another program uses the node's account: remove the node.",
	},
	{
		CodeScriptInvalid, Invalid, false, 422, ExitUsage,
		"The script does not pass `writ check`; the diagnostics have the positions and reasons.", "",
	},
	{
		CodeScriptFailed, Failed, false, 422, ExitFailed, "The script ended with an error; position and trace show where.",
		"",
	},
	{
		CodeScriptLimit, Failed, false, 422, ExitFailed,
		"The script reached a limit (calls, steps, memory, arguments, results).",
		"The limits are in docs/manual/scripts.md.",
	},
	{
		CodeNonDeterminism, Failed, false, 409, ExitFailed, "The script requested other calls than the run's journal has.",
		"This is a defect of writ or a damaged journal: please report it.",
	},
	{
		CodeEvaluatorCrashed, Failed, false, 422, ExitFailed,
		"The evaluation of the script crashed several times at the same place, usually because memory ran out.", "",
	},
	{
		CodePlanMismatch, Conflict, false, 409, ExitConflict, "The run is bound to a plan, and the datacenter plans the script differently. The script, a parameter, the version of a secret or the version of writ has changed.",
		"Plan the script again with `writ plan`, then sign.",
	},
	{
		CodePlanDeviated, Failed, false, 409, ExitFailed, "The run is bound to a plan and requested a call that the plan does not contain. The run was stopped before that call; earlier calls are done.",
		"Plan the script again, then decide whether to sign the new plan.",
	},
	{
		CodeOperationNotAllowed, Denied, false, 403, ExitDenied,
		"The script called an operation that is missing in its signed `allow` line.", "",
	},
	{
		CodeArgumentsInvalid, Invalid, false, 422, ExitFailed,
		"The arguments of a call do not match the operation; the message names the field.", "",
	},
	{
		CodeDependencyFailed, Failed, false, 422, ExitFailed,
		"A call was not sent because a call that it depends on failed.", "`writ run show RUN` shows the failed call.",
	},
	{CodeRunCancelled, Failed, false, 409, ExitFailed, "The run was cancelled.", ""},
	{CodeRunExpired, Failed, false, 409, ExitFailed, "The run did not end before its deadline.", ""},
	{
		CodeRunLost, Failed, false, 409, ExitFailed, "The datacenter's journal was restored from a backup that is older than the run, and the submission is no longer accepted. The progress of the run is unknown; nodes keep the resources that they made.",
		"Inspect the resources, then submit the script again.",
	},
	{
		CodeDeadlineExceeded, Failed, false, 422, ExitFailed, "The call did not end within its time limit.",
		"The option `timeout` of a call extends its time limit.",
	},
	{
		CodeOutcomeUnknown, Failed, false, 422, ExitFailed,
		"The node died, or its tool failed, during work that must not be repeated.",
		"Inspect the resource. Set `idempotent: true` for a call that may be repeated without harm.",
	},
	{CodeNodeLost, Failed, true, 422, ExitFailed, "The node with the call did not come back in time.", ""},
	{
		CodeNodeStore, Unavailable, true, 422, ExitFailed,
		"The node cannot write its own journal (disk full, read-only or damaged), so it does no work.", "",
	},
	{
		CodeAttemptGivenUp, Unavailable, true, 409, ExitFailed,
		"The node saw a later attempt of the call and skipped this attempt.", "The supervisor continues automatically.",
	},
	{
		CodeNodeRejected, Denied, false, 403, ExitRemoved,
		"The datacenter has rejected or removed this node, with a signed statement.",
		"The node can join again with another key, from an empty data directory.",
	},
	{
		CodeClockSkew, Unavailable, true, 503, ExitFailed,
		"The clocks of the node and its supervisor differ by more than 30 s, so the node gets no work.",
		"Repair the time service of the host whose clock is wrong. `writ node list` shows the difference.",
	},
	{
		CodeEpochAhead, Unavailable, true, 503, ExitFailed,
		"The node has obeyed a supervisor with a later epoch (start time), so this supervisor gives the node no work.",
		"If another supervisor serves the datacenter now, stop this supervisor. If a clock was ahead, restart this supervisor after the time in the message, or remove the node and let it join again.",
	},
	{
		CodeNodeCopied, Conflict, false, 409, ExitFailed, "Two machines act as one node: one has a copy of the other's data directory. Both are blocked and get no work, because each could repeat the other's work.",
		"Turn the copy off and empty its data directory. The other node then gets work again.",
	},
	{
		CodeEpochInvalid, Denied, false, 403, ExitDenied,
		"A supervisor's epoch (its start time) is negative, or more than 366 days ahead of the clock, and is rejected.",
		"Compare the clocks of the supervisor and its nodes.",
	},
	{
		CodeNoCapacity, Unavailable, true, 422, ExitFailed,
		"No ready and open node has the drivers, labels and capacity that the call needs.",
		"`writ run explain RUN` shows the cause for each node; `writ node list -o wide` shows sizes and labels.",
	},
	{
		CodeResourceUnknown, NotFound, false, 404, ExitFailed,
		"The project has no resource of this kind and name in this datacenter.",
		"`writ resource list` lists the project's resources.",
	},
	{
		CodeResourceConflict, Conflict, false, 409, ExitFailed,
		"The resource exists in another form or place than the call requests.", "",
	},
	{
		CodeResourceBusy, Unavailable, true, 409, ExitFailed,
		"Another job works on the resource, or other resources use it; the message names them.", "",
	},
	{
		CodePortClosed, Denied, false, 403, ExitFailed, "The operator of the node does not open this port for publication.",
		"Publish an open port, or port 0 for any open port. `writ runner --publish` opens other ports.",
	},
	{
		CodePortTaken, Conflict, false, 409, ExitFailed,
		"Another resource publishes this port of the node, or a process of the node listens on it.",
		"Publish another port, or port 0 for any free port.",
	},
	{
		CodeDeviceForbidden, Denied, false, 403, ExitFailed, "The operator of the node does not offer this device.",
		"Use a device from the message. `writ runner --device` offers other devices; `writ doctor` finds missing devices.",
	},
	{
		CodeRecordDamaged, Failed, false, 422, ExitFailed,
		"The node's record of the resource cannot be read: its disk failed, or the file in the message was changed.",
		"Delete the resource, which removes all its data and objects on the node, or restore the file from a backup.",
	},
	{
		CodeRecordForged, Failed, false, 409, ExitFailed, "The datacenter's journal returned another record than its supervisor wrote: the database was changed or replaced. The record is ignored.",
		"Find out who can write to the database, then restore the journal from a backup.",
	},
	{
		CodeNotOwner, Denied, false, 403, ExitFailed, "Another deployment, or the project itself, owns the resource.",
		"Submit the script with `--deployment OWNER` (without the flag if the project owns the resource), or take the resource over with `adopt: true`.",
	},
	{
		CodeResourceInUse, Conflict, false, 409, ExitFailed,
		"A call would delete a resource that is in use, and the run does not delete or change the resource that uses it.",
		"First delete the resource at the beginning of the message, which uses the other resource, or keep both.",
	},
	{
		CodeImmutableField, Conflict, false, 409, ExitFailed,
		"The resource exists with another value in an immutable field.", "Delete the resource first, or use another name.",
	},
	{
		CodeDriverMissing, Unavailable, false, 422, ExitFailed, "The node has no driver for this operation.",
		"`writ node show` lists the drivers of a node.",
	},
	{
		CodeDriverFailed, Failed, true, 422, ExitFailed,
		"The tool on the node reported an error that may be temporary; the message has the tool's text.", "",
	},
	{
		CodeDriverRefused, Failed, false, 422, ExitFailed,
		"The tool or the kernel of the node rejected the work; another attempt would have the same result.",
		"The message has the reason: change the script or the node, then submit again.",
	},
	{
		CodeQuotaExceeded, Failed, false, 422, ExitFailed,
		"The node or the project has reached a quota; the message names the quota.", "",
	},
	{CodeDiskFull, Unavailable, true, 422, ExitFailed, "The node's disk is full.", ""},
	{
		CodeChecksumMismatch, Failed, false, 422, ExitFailed,
		"The fetched content was discarded: it lacks the SHA-256 that the script, registry or source node names.", "",
	},
	{
		CodeImageUnknown, NotFound, false, 422, ExitNotFound, "The registry has no image with this name and tag or digest.",
		"Correct the reference, or push the image again.",
	},
	{
		CodeImageGone, NotFound, false, 422, ExitNotFound,
		"The registry no longer has an image that an earlier revision of the deployment used.",
		"Push the image with the same digest again, or submit a script with another image.",
	},
	{
		CodeImageUnresolved, Invalid, false, 422, ExitUsage,
		"The signed header does not name the digest of this image, so nodes do not fetch it.",
		"`writ submit` finds the digests of references in the script. Name other images with `--image`, or write the digest after the tag.",
	},
	{
		CodeImagePlatform, Failed, false, 422, ExitFailed, "The image is not made for the processor of the node.",
		"Use an image for this platform, or choose another node with the option `labels`.",
	},
	{
		CodeRegistryDenied, Denied, false, 403, ExitDenied, "The registry requires other credentials for this image.",
		"For `writ submit`, `docker login` stores credentials; for nodes, name an account in the argument `login`.",
	},
	{
		CodeRegistryLogin, Denied, false, 403, ExitDenied, "The registry rejects the credentials in the argument `login`.",
		"Set the password again with `writ secret set`, and sign the script again.",
	},
	{
		CodeRegistryForbidden, Denied, false, 403, ExitDenied, "The operator of the node does not allow this registry.",
		"Use an allowed registry, or ask the operator of the node for `writ runner --registry`.",
	},
	{
		CodeRegistryBusy, Unavailable, true, 422, ExitUnreachable,
		"The registry limits requests, or has a fault of its own.", "",
	},
	{
		CodeSecretUnknown, NotFound, false, 422, ExitNotFound, "The signed header does not name this secret, or the datacenter does not have this version: it was never set, or was removed.",
		"`writ secret list` shows the versions; sign the script again.",
	},
	{
		CodeSecretUnreadable, Failed, false, 422, ExitFailed,
		"The reader of the secret cannot decrypt it: it was encrypted for another key, or as another secret.",
		"Set the secret again with `writ secret set`. A node that has lost its keys must join again.",
	},
	{
		CodeUnhealthy, Failed, false, 422, ExitFailed, "A container did not pass its health check in time.",
		"The message has the last probe and output. Correct the program or the check; for a slow start, raise `health.start_seconds`.",
	},
	{
		CodeProgramFailed, Failed, false, 422, ExitFailed, "The program of `container.run` did not exit with code 0.",
		"The message has the end of the program's output. Correct the program. With `check: false`, the script gets the exit code instead of an error.",
	},
	{
		CodeFileTooLarge, Invalid, false, 422, ExitFailed, "A file in `files` has more than 1 MiB.",
		"Put larger content into an image or a volume.",
	},
	{CodeInjected, Unavailable, true, 422, ExitFailed, "A simulated driver was configured to fail here.", ""},
	{
		CodeInjectedFinal, Failed, false, 422, ExitFailed,
		"A simulated driver was configured to fail here permanently.", "",
	},
}

// IsStoreUnavailable reports whether a code means that a store temporarily cannot be written.
func (c Code) IsStoreUnavailable() bool {
	return c == CodeStoreUnavailable || c == CodeStoreFull || c == CodeStoreReadOnly
}

// codeIndex maps each code to its row in Codes.
var codeIndex = func() map[Code]CodeInfo {
	m := make(map[Code]CodeInfo, len(Codes))
	for _, c := range Codes {
		m[c.Code] = c
	}
	return m
}()

// Info returns the row of c. An unknown code counts as INTERNAL.
func (c Code) Info() CodeInfo {
	if info, ok := codeIndex[c]; ok {
		return info
	}
	return codeIndex[CodeInternal]
}
