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
	*why = reasonOf(*why, *sentence).Bounded()
	*sentence = why.String()
}

// reasonOf returns the reason of a run or call. An earlier version sent or stored only the sentence.
func reasonOf(why writ.Reason, sentence string) writ.Reason {
	if why.IsZero() && sentence != "" {
		return writ.Reason{Code: writ.ReasonText, Text: sentence}
	}
	return why
}
