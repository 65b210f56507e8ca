package writ

import "time"

// EpochLead is how far an epoch may be ahead of a clock. A supervisor takes the milliseconds of its clock as its epoch, or one more than the
// last: an epoch that is further ahead is a mistake or a lie, and who obeyed it would obey no proper supervisor any more.
const EpochLead = 366 * 24 * time.Hour

// CheckEpoch refuses an epoch that cannot be, given the time now.
func CheckEpoch(epoch int64, now time.Time) error {
	if epoch < 0 || epoch > now.Add(EpochLead).UnixMilli() {
		return Errorf(CodeEpochInvalid, "the epoch %d is negative, or more than %d days ahead of the clock", epoch, int(EpochLead.Hours()/24)).
			WithHint("compare the clocks of the supervisor and its nodes (`timedatectl`)")
	}
	return nil
}
