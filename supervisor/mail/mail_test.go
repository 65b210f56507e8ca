package mail_test

import (
	"slices"
	"testing"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

func TestMailKeepsTheNewestProgress(t *testing.T) {
	one, two := writ.JobKey{Run: "r", Seq: 1}, writ.JobKey{Run: "r", Seq: 2}
	var m mail.Mail
	m.Add(mail.Mail{Progress: []mail.Progress{{Key: one, Text: "10 %"}, {Key: two, Text: "20 %"}}})
	m.Add(mail.Mail{Progress: []mail.Progress{{Key: one, Text: "30 %"}}, Overdue: []writ.JobKey{one}})
	m.Add(mail.Mail{Overdue: []writ.JobKey{one, two}})
	m.Compact()
	if want := []mail.Progress{{Key: two, Text: "20 %"}, {Key: one, Text: "30 %"}}; !slices.Equal(m.Progress, want) {
		t.Errorf("progress is %v, want %v", m.Progress, want)
	}
	if want := []writ.JobKey{one, two}; !slices.Equal(m.Overdue, want) {
		t.Errorf("overdue jobs are %v, want %v", m.Overdue, want)
	}
}

func TestDeliveriesExcludeWithdrawnOnes(t *testing.T) {
	c := &journal.Call{Call: writ.Call{Seq: 3, Attempt: 2, Delivery: 4}, Withdrawn: 2}
	all := mail.DeliveriesOf(c)
	if want := []mail.Delivery{{Key: c.Key(), Number: 3}, {Key: c.Key(), Number: 4}}; !slices.Equal(all, want) {
		t.Errorf("deliveries are %v, want %v", all, want)
	}
	if last := mail.DeliveryOf(c); last != all[1] {
		t.Errorf("the last delivery is %v, want %v", last, all[1])
	}
}
