package live

import (
	"slices"

	"writ"
	"writ/coord/api"
	"writ/internal/clip"
)

// Limits of a reason that a datacenter sends.
const (
	maxReasonText  = 4 << 10 // bytes
	maxReasonName  = 256     // bytes
	maxReasonNodes = 16
	maxReasonDepth = 4 // of causes
)

// bounded returns a reason without the parts that exceed the limits. It does not modify values that r points to. depth
// is the number of reasons that may remain: r and its causes.
func bounded(r writ.Reason, depth int) writ.Reason {
	clipNames(&r.Node, &r.State, &r.Call, &r.Resource, &r.Deployment, &r.Datacenter, &r.By)
	r.Code = clipped(r.Code)
	r.Run = clipped(r.Run)
	r.Text = clip.Text(r.Text, maxReasonText)
	if r.Hold != nil {
		h := *r.Hold
		clipNames(&h.Datacenter, &h.Project, &h.Deployment, &h.Operation, &h.By)
		h.Text = clip.Text(h.Text, maxReasonText)
		r.Hold = &h
	}
	if r.Error != nil {
		r.Error = &writ.Error{Code: clipped(r.Error.Code), Message: clip.Text(r.Error.Message, maxReasonText)}
	}
	r.Nodes = slices.Clone(r.Nodes[:min(len(r.Nodes), maxReasonNodes)])
	for i, n := range r.Nodes {
		r.Nodes[i] = boundedNodes(n)
	}
	switch {
	case r.Cause == nil:
	case depth <= 1:
		r.Cause = nil
	default:
		cause := bounded(*r.Cause, depth-1)
		r.Cause = &cause
	}
	return r
}

func boundedNodes(n writ.NodesReason) writ.NodesReason {
	n.Names = slices.Clone(n.Names[:min(len(n.Names), maxReasonNodes)])
	for i := range n.Names {
		clipNames(&n.Names[i])
	}
	clipNames(&n.State)
	n.Code, n.Text = clipped(n.Code), clip.Text(n.Text, maxReasonText)
	return n
}

func clipNames(names ...*string) {
	for _, name := range names {
		*name = clip.Text(*name, maxReasonName)
	}
}

func clipped[S ~string](name S) S { return S(clip.Text(string(name), maxReasonName)) }

// BoundReasons bounds the reasons in events of a datacenter and adds their sentences. A supervisor of an earlier
// version sends only the sentence.
func BoundReasons(events []writ.Event) {
	for _, e := range events {
		switch {
		case e.Run != nil:
			BoundReason(&e.Run.Why, &e.Run.Reason)
		case e.Call != nil:
			BoundReason(&e.Call.Why, &e.Call.Reason)
		}
	}
}

// BoundReason bounds a reason that a datacenter sent and sets its sentence.
func BoundReason(why *writ.Reason, sentence *string) {
	*why = bounded(api.ReasonOf(*why, *sentence), maxReasonDepth)
	*sentence = why.String()
}
