package process

import "time"

const secondsPerDay = 24 * 60 * 60

// dateOf reads YYYY-MM-DD, a day that exists, as days since 1970-01-01.
func dateOf(text []byte) (int32, bool) {
	t, ok := dayOf(text)
	if !ok || len(text) != len("2006-01-02") {
		return 0, false
	}
	return int32(t.Unix() / secondsPerDay), true
}

// timestampOf reads RFC 3339, or the same without a zone, with 'T' or a space
// between date and time, as microseconds since 1970-01-01T00:00:00. With a zone
// they count in UTC and zoned is true; without one they count on an unnamed
// local clock. Finer fractions than microseconds, and second 60, are not taken.
func timestampOf(text []byte) (micros int64, zoned, ok bool) {
	const seconds = len("2006-01-02T15:04:05")
	if len(text) < seconds {
		return 0, false, false
	}
	day, ok := dayOf(text)
	if !ok || text[10] != 'T' && text[10] != 't' && text[10] != ' ' {
		return 0, false, false
	}
	hour, ok1 := twoDigits(text[11:], 23)
	minute, ok2 := twoDigits(text[14:], 59)
	second, ok3 := twoDigits(text[17:], 59)
	if !ok1 || !ok2 || !ok3 || text[13] != ':' || text[16] != ':' {
		return 0, false, false
	}
	micros = day.UnixMicro() + ((int64(hour)*60+int64(minute))*60+int64(second))*1e6
	rest := text[seconds:]
	if len(rest) > 0 && rest[0] == '.' {
		fraction := leadingDigits(rest[1:])
		if len(fraction) == 0 || len(fraction) > 6 {
			return 0, false, false
		}
		unit := int64(1e5)
		for _, d := range fraction {
			micros += int64(d-'0') * unit
			unit /= 10
		}
		rest = rest[1+len(fraction):]
	}
	switch {
	case len(rest) == 0:
		return micros, false, true
	case len(rest) == 1 && (rest[0] == 'Z' || rest[0] == 'z'):
		return micros, true, true
	case len(rest) == len("+00:00") && (rest[0] == '+' || rest[0] == '-') && rest[3] == ':':
		hours, ok1 := twoDigits(rest[1:], 23)
		minutes, ok2 := twoDigits(rest[4:], 59)
		offset := int64(hours*60+minutes) * 60e6
		if rest[0] == '-' {
			offset = -offset
		}
		micros -= offset
		year := time.UnixMicro(micros).UTC().Year()
		return micros, true, ok1 && ok2 && year >= 1 && year <= 9999
	}
	return 0, false, false
}

// dayOf reads the date that text begins with. Years run from 0001 to 9999, as
// readers of Parquet have them.
func dayOf(text []byte) (time.Time, bool) {
	if len(text) < len("2006-01-02") || text[4] != '-' || text[7] != '-' {
		return time.Time{}, false
	}
	century, ok1 := twoDigits(text, 99)
	year, ok2 := twoDigits(text[2:], 99)
	month, ok3 := twoDigits(text[5:], 12)
	day, ok4 := twoDigits(text[8:], 31)
	year += century * 100
	if !ok1 || !ok2 || !ok3 || !ok4 || year == 0 || month == 0 || day == 0 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	return t, t.Day() == day // the 31st of June becomes the 1st of July
}

func twoDigits(b []byte, most int) (int, bool) {
	if b[0] < '0' || b[0] > '9' || b[1] < '0' || b[1] > '9' {
		return 0, false
	}
	n := int(b[0]-'0')*10 + int(b[1]-'0')
	return n, n <= most
}
