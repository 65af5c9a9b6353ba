package expression

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

func dateFunctions() []*function {
	return []*function{
		{name: "dateTimeAdd", min: 2, max: 3, eval: dateTimeAdd},
		{name: "dateTimeFromEpoch", min: 1, max: 1, eval: dateTimeFromEpoch},
		{name: "dateTimeToEpoch", min: 1, max: 1, eval: dateTimeToEpoch},
		{name: "utcNow", max: 1, eval: utcNow},
		{name: "newGuid", eval: func(c *called) (any, error) {
			if c.env.Place&AllowNew == 0 {
				return nil, c.onlyInDefaults()
			}
			if c.env.NewGUID == nil {
				return c.later(), nil
			}
			return c.env.NewGUID(), nil
		}},
	}
}

func (c *called) onlyInDefaults() error {
	return errorf("The template function '%s' is not expected at this location. The function can only be used with parameter default value expresions."+usage, c.name)
}

func utcNow(c *called) (any, error) {
	if c.env.Place&AllowNew == 0 {
		return nil, c.onlyInDefaults()
	}
	spec := "yyyyMMddTHHmmssZ"
	if len(c.args) > 0 {
		s, err := c.text(0)
		if err != nil {
			return nil, err
		}
		spec = s
	}
	if c.env.Now == nil {
		return c.later(c.args...), nil
	}
	return c.formatDate(c.env.Now().UTC(), spec)
}

// dateLayouts are the forms of a date that are read, without a zone.
var dateLayouts = []string{
	"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02", "2006-01",
	"20060102T150405", "01/02/2006 15:04:05", "01/02/2006 15:04", "01/02/2006", "1/2/2006",
	"January 2 2006", "January 2, 2006", "2 January 2006", "Jan 2 2006", "Jan 2, 2006", "2 Jan 2006",
	"Mon, 02 Jan 2006 15:04:05",
}

var zoneSuffix = regexp.MustCompile(`\s*(Z|z|GMT|[+-]\d{2}:?\d{2})$`)

// parseDate reads a date in an ISO 8601 form, or in one of the other usual ones. A date
// without a zone is UTC.
func parseDate(text string) (time.Time, bool) {
	text = strings.TrimSpace(text)
	zone := time.UTC
	if match := zoneSuffix.FindStringSubmatchIndex(text); match != nil && strings.ContainsAny(text[:match[0]], ":T") {
		suffix := text[match[2]:match[3]]
		if suffix[0] == '+' || suffix[0] == '-' {
			digits := strings.ReplaceAll(suffix[1:], ":", "")
			hours, _ := strconv.Atoi(digits[:2])
			minutes, _ := strconv.Atoi(digits[2:])
			if hours > 14 || minutes > 59 {
				return time.Time{}, false
			}
			offset := hours*3600 + minutes*60
			if suffix[0] == '-' {
				offset = -offset
			}
			zone = time.FixedZone("", offset)
		}
		text = text[:match[0]]
	}
	for _, layout := range dateLayouts {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil && t.Year() >= 1 && t.Year() <= 9999 {
			return t, true
		}
	}
	return time.Time{}, false
}

var durationForm = regexp.MustCompile(`^(-)?P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?(T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d+))?S)?)?$`)

// parseDuration reads an ISO 8601 duration. A year, and 12 months, are 365 days; a month
// is 30.
func parseDuration(text string) (time.Duration, bool) {
	match := durationForm.FindStringSubmatch(text)
	if match == nil || strings.HasSuffix(text, "P") || strings.HasSuffix(text, "T") {
		return 0, false
	}
	var numbers [9]int64
	for _, i := range []int{2, 3, 4, 6, 7, 8} {
		if match[i] == "" {
			continue
		}
		n, err := strconv.ParseInt(match[i], 10, 64)
		if err != nil || n > 9e9 {
			return 0, false
		}
		numbers[i] = n
	}
	years, months := numbers[2]+numbers[3]/12, numbers[3]%12
	days := years*365 + months*30 + numbers[4]
	seconds := days*86400 + numbers[6]*3600 + numbers[7]*60 + numbers[8]
	if seconds > 9e9 { // Above 285 years; time.Duration ends at 292.
		return 0, false
	}
	duration := time.Duration(seconds) * time.Second
	if match[9] != "" {
		fraction, _ := strconv.ParseInt((match[9] + "0000000")[:7], 10, 64)
		duration += time.Duration(fraction) * 100
	}
	if match[1] != "" {
		duration = -duration
	}
	return duration, true
}

const seeDates = " Please see https://aka.ms/arm-syntax-functions ."

func dateTimeAdd(c *called) (any, error) {
	s, err := c.texts()
	if err != nil {
		return nil, err
	}
	base, ok := parseDate(s[0])
	if !ok {
		return nil, errorf("The template function 'dateTimeAdd' has an invalid parameter. The first parameter '%s' is not a valid ISO8601 DateTime string."+seeDates, s[0])
	}
	duration, ok := parseDuration(s[1])
	if !ok {
		return nil, errorf("The template function 'dateTimeAdd' has an invalid parameter. The second parameter '%s' is not a valid ISO8601 Duration string."+seeDates, s[1])
	}
	sum := base.Add(duration)
	if sum.UTC().Year() < 1 || sum.UTC().Year() > 9999 {
		return nil, errorf("The template function 'dateTimeAdd' has an invalid parameter. The second parameter '%s' is not a valid ISO8601 Duration string."+seeDates, s[1])
	}
	spec := "yyyy-MM-ddTHH:mm:ssZ"
	if len(s) > 2 {
		spec = s[2]
	}
	return c.formatDate(sum, spec)
}

func dateTimeToEpoch(c *called) (any, error) {
	text, err := c.text(0)
	if err != nil {
		return nil, err
	}
	t, ok := parseDate(text)
	if !ok {
		return nil, errorf("The template function 'dateTimeToEpoch' has an invalid parameter. The parameter is not a valid ISO8601 DateTime string." + seeDates)
	}
	return t.Unix(), nil
}

func dateTimeFromEpoch(c *called) (any, error) {
	const first, last = -62135596800, 253402300799 // The years 1 and 9999.
	n, is := c.args[0].(int64)
	if !is || n < first || n > last {
		return nil, errorf("The template function 'dateTimeFromEpoch' has an invalid parameter. The parameter is not a valid epoch time integer." + seeDates)
	}
	return c.formatDate(time.Unix(n, 0).UTC(), "yyyy-MM-ddTHH:mm:ssZ")
}

// standardDates are .NET's standard formats in the invariant culture. Those of utc convert.
var standardDates = map[byte]struct {
	spec string
	utc  bool
}{
	'd': {"MM/dd/yyyy", false}, 'D': {"dddd, dd MMMM yyyy", false},
	'f': {"dddd, dd MMMM yyyy HH:mm", false}, 'F': {"dddd, dd MMMM yyyy HH:mm:ss", false},
	'g': {"MM/dd/yyyy HH:mm", false}, 'G': {"MM/dd/yyyy HH:mm:ss", false},
	'm': {"MMMM dd", false}, 'M': {"MMMM dd", false},
	'o': {"yyyy-MM-ddTHH:mm:ss.fffffffzzz", false}, 'O': {"yyyy-MM-ddTHH:mm:ss.fffffffzzz", false},
	'r': {"ddd, dd MMM yyyy HH:mm:ss 'GMT'", true}, 'R': {"ddd, dd MMM yyyy HH:mm:ss 'GMT'", true},
	's': {"yyyy-MM-ddTHH:mm:ss", false},
	't': {"HH:mm", false}, 'T': {"HH:mm:ss", false},
	'u': {"yyyy-MM-dd HH:mm:ss'Z'", true},
	'y': {"yyyy MMMM", false}, 'Y': {"yyyy MMMM", false},
}

// formatDate writes a date in a .NET format.
func (c *called) formatDate(t time.Time, spec string) (any, error) {
	bad := errorf("The template function '%s' has an invalid parameter. The format '%s' is not a valid date format."+seeDates, c.name, spec)
	if spec == "" {
		spec = "G"
	}
	if len(spec) == 1 {
		standard, found := standardDates[spec[0]]
		if !found {
			return nil, bad
		}
		spec = standard.spec
		if standard.utc {
			t = t.UTC()
		}
	}
	var b strings.Builder
	for i := 0; i < len(spec); {
		letter := spec[i]
		run := 1
		for i+run < len(spec) && spec[i+run] == letter {
			run++
		}
		switch letter {
		case '\'', '"':
			end := strings.IndexByte(spec[i+1:], letter)
			if end < 0 {
				return nil, bad
			}
			b.WriteString(spec[i+1 : i+1+end])
			i += end + 2
			continue
		case '\\':
			if i+1 >= len(spec) {
				return nil, bad
			}
			b.WriteByte(spec[i+1])
			i += 2
			continue
		case '%':
			i++
			continue
		}
		text, ok := datePart(t, letter, run)
		if !ok {
			return nil, bad
		}
		b.WriteString(text)
		i += run
	}
	return b.String(), nil
}

// padded returns a number with at least that many digits.
func padded(n, digits int) string {
	text := strconv.Itoa(n)
	return strings.Repeat("0", max(digits-len(text), 0)) + text
}

// datePart writes the part of a date that a letter, repeated that often, stands for.
// Other characters stand for themselves.
func datePart(t time.Time, letter byte, run int) (text string, ok bool) {
	hour12 := (t.Hour()+11)%12 + 1
	switch letter {
	case 'y':
		if run <= 2 {
			return padded(t.Year()%100, run), true
		}
		return padded(t.Year(), min(run, 16)), true
	case 'M':
		switch {
		case run >= 4:
			return t.Month().String(), true
		case run == 3:
			return t.Month().String()[:3], true
		}
		return padded(int(t.Month()), run), true
	case 'd':
		switch {
		case run >= 4:
			return t.Weekday().String(), true
		case run == 3:
			return t.Weekday().String()[:3], true
		}
		return padded(t.Day(), run), true
	case 'H':
		return padded(t.Hour(), min(run, 2)), true
	case 'h':
		return padded(hour12, min(run, 2)), true
	case 'm':
		return padded(t.Minute(), min(run, 2)), true
	case 's':
		return padded(t.Second(), min(run, 2)), true
	case 'f', 'F':
		if run > 7 {
			return "", false
		}
		text := padded(t.Nanosecond()/100, 7)[:run]
		if letter == 'F' {
			text = strings.TrimRight(text, "0")
		}
		return text, true
	case 't':
		half := "AM"
		if t.Hour() >= 12 {
			half = "PM"
		}
		return half[:min(run, 2)], true
	case 'g':
		return "A.D.", true
	case 'K':
		return strings.Repeat(t.Format("-07:00"), run), true
	case 'z':
		switch run {
		case 1, 2:
			return t.Format("-07"), true
		}
		return t.Format("-07:00"), true
	}
	return strings.Repeat(string(letter), run), true
}
