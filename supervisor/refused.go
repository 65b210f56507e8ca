package supervisor

import "writ"

// ofAnother returns the error of a message in which a node speaks for another node.
func ofAnother(node writ.NodeID) error {
	return writ.Errorf(writ.CodeBadRequest, "it is about the node %q", node)
}

// tooOften returns the error of a message that exceeds the rate limit of its kind.
func tooOften(format string, args ...any) error {
	return writ.Errorf(writ.CodeRateLimited, format, args...)
}
