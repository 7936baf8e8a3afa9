package settings

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones are checked on machines that have no list of them
)

// Schedule says when runs start.
type Schedule struct {
	// Expression is rate(…) or cron(…), as EventBridge Scheduler has them;
	// default "rate(15 minutes)".
	Expression string `json:"expression"`
	TimeZone   string `json:"timeZone"` // of a cron expression, an IANA name; default "UTC"
	Enabled    bool   `json:"enabled"`  // default true
}

var (
	rate = regexp.MustCompile(`^rate\(([1-9][0-9]{0,5}) (minute|hour|day)s?\)$`)
	cron = regexp.MustCompile(`^cron\(([^()]*)\)$`)
)

// Interval is the time between two runs; 0 where the expression does not tell.
func (s Schedule) Interval() time.Duration {
	parts := rate.FindStringSubmatch(s.Expression)
	if parts == nil {
		return 0
	}
	n, _ := strconv.Atoi(parts[1]) // digits, by the expression
	return time.Duration(n) * map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[parts[2]]
}

func (s Schedule) validate(path string) error {
	switch inner := cron.FindStringSubmatch(s.Expression); {
	case rate.MatchString(s.Expression):
	case inner == nil:
		return refuse(path+".expression", "is %q; use rate(15 minutes) or cron(0 6 * * ? *), as EventBridge Scheduler has them", s.Expression)
	case len(strings.Fields(inner[1])) != 6:
		return refuse(path+".expression", "is %q; cron has six fields here: minutes, hours, day of month, month, day of week, year", s.Expression)
	}
	if _, err := time.LoadLocation(s.TimeZone); err != nil || s.TimeZone == "" || s.TimeZone == "Local" {
		return refuse(path+".timeZone", "is %q; use a name such as \"Europe/Berlin\", or \"UTC\"", s.TimeZone)
	}
	return nil
}
