package coord

import "writ"

// setReasons bounds the reasons in events of a datacenter and adds their sentences. An earlier supervisor sends only the sentence.
func setReasons(events []writ.Event) {
	for _, e := range events {
		switch {
		case e.Run != nil:
			setReason(&e.Run.Why, &e.Run.Reason)
		case e.Call != nil:
			setReason(&e.Call.Why, &e.Call.Reason)
		}
	}
}

// setReason bounds a reason that a datacenter sent and sets its sentence.
func setReason(why *writ.Reason, sentence *string) {
	if why.IsZero() && *sentence != "" {
		*why = writ.Reason{Code: writ.ReasonText, Text: *sentence}
	}
	*why = why.Bounded()
	*sentence = why.String()
}
