// Package held asks supervisors which work is on hold, and describes their answers.
package held
