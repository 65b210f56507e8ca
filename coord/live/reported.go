package live

import (
	"writ"
	"writ/coord/api"
)

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
