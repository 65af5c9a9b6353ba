package query

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/decandb/decan/internal/value"
)

// dateTimeForm is the form in which functions write a date and time. They also read
// shorter forms.
const dateTimeForm = "2006-01-02T15:04:05.0000000Z"

// Ticks are units of 100 ns since 1970, the precision of the language.
const (
	tick           = 100 * time.Nanosecond
	ticksPerSecond = int64(time.Second / tick)
)

// timeFunctions process dates in ISO 8601 form. They count in UTC. The result is
// undefined for other texts and for years outside 1601 to 9999.
func timeFunctions() []function {
	now := func(name string, read func(t time.Time) value.Value) function {
		return function{name: name + " " + name + "Static", volatile: true, run: func(e *env, _ []value.Value) value.Value {
			return read(e.now)
		}}
	}
	of := func(name string, read func(t time.Time) value.Value) function {
		return function{name: name, min: 1, max: 1, run: func(_ *env, args []value.Value) value.Value {
			if t, ok := parseDateTime(args[0]); ok {
				return read(t)
			}
			return value.Undefined()
		}}
	}
	part := func(name, part string) function {
		return of(name, func(t time.Time) value.Value { return partOf(t, part) })
	}
	ticks := func(t time.Time) value.Value { return value.Int(ticksOf(t)) }
	millis := func(t time.Time) value.Value { return value.Int(t.UnixMilli()) }
	return []function{
		now("GetCurrentDateTime", dateTime),
		{name: "NOW", max: 2, volatile: true, run: shifted(1)},
		now("GetCurrentTicks", ticks), now("GetCurrentTimestamp", millis),
		of("DateTimeToTicks", ticks), of("DateTimeToTimestamp", millis),
		part("YEAR", "year"), part("MONTH", "month"), part("DAY", "day"),
		fromInteger("TicksToDateTime", ticksPerSecond), fromInteger("TimestampToDateTime", 1000),
		{name: "DateTimeAdd", min: 2, max: 3, run: dateTimeAdd},
		{name: "AGO", min: 1, max: 2, volatile: true, run: shifted(-1)},
		{name: "DateTimeFormat", min: 2, max: 2, run: dateTimeFormat},
		{name: "DateTimeDiff", min: 3, max: 3, run: dateTimeDiff},
		{name: "DateTimePart", min: 2, max: 2, run: func(_ *env, args []value.Value) value.Value {
			if t, ok := parseDateTime(args[1]); ok {
				return partOf(t, partName(args[0]))
			}
			return value.Undefined()
		}},
		{name: "DateTimeFromParts", min: 3, max: 7, run: dateTimeFromParts},
		{name: "DateTimeBin", min: 2, max: 4, run: dateTimeBin},
	}
}

// The range of years of the language. Dates before it are undefined, whether they are
// arguments or results.
const (
	yearMin = 1601
	yearMax = 9999
)

// parseDateTime parses a date, optionally followed by a time with a fraction of up to
// seven digits, and by a Z or an offset. The result is in UTC. Both the year as written
// and that in UTC must be within the range.
func parseDateTime(v value.Value) (time.Time, bool) {
	s := v.Text()
	const date, clock = len(time.DateOnly), len("T15:04:05")
	if len(s) < date {
		return time.Time{}, false
	}
	t, err := time.Parse(time.DateOnly, s[:date])
	if err != nil || t.Year() < yearMin {
		return time.Time{}, false
	}
	rest := s[date:]
	if len(rest) >= clock && (rest[0] == 'T' || rest[0] == ' ' && isDigit(rest[1])) {
		at, err := time.Parse(time.TimeOnly, rest[1:clock])
		if err != nil {
			return time.Time{}, false
		}
		t = t.Add(time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute + time.Duration(at.Second())*time.Second)
		rest = rest[clock:]
		if strings.HasPrefix(rest, ".") {
			digits := len(rest) - 1 - len(strings.TrimLeft(rest[1:], "0123456789"))
			if digits < 1 || digits > fractionDigits {
				return time.Time{}, false
			}
			ticks, _ := strconv.Atoi((rest[1:1+digits] + "000000")[:fractionDigits])
			t, rest = t.Add(time.Duration(ticks)*tick), rest[1+digits:]
		}
	}
	east, ok := parseOffset(rest)
	t = t.Add(-east)
	return t, ok && t.Year() >= yearMin && t.Year() <= yearMax
}

// offsetMax is the maximum offset from UTC.
const offsetMax = 14 * time.Hour

// parseOffset parses the end of a date and time: nothing, Z, or hours and minutes east
// of Greenwich, such as +02:00, +0200 or +02. A blank may precede the sign.
func parseOffset(s string) (east time.Duration, ok bool) {
	if s == "" || s == "Z" {
		return 0, true
	}
	s = strings.TrimPrefix(s, " ")
	if s == "" || s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	for _, form := range []string{"15:04", "1504", "15"} {
		if clock, err := time.Parse(form, s[1:]); err == nil && len(s) == 1+len(form) {
			east = time.Duration(clock.Hour())*time.Hour + time.Duration(clock.Minute())*time.Minute
			if s[0] == '-' {
				east = -east
			}
			return east, east.Abs() <= offsetMax
		}
	}
	return 0, false
}

// dateTime writes a time; undefined if the year is outside the range.
func dateTime(t time.Time) value.Value {
	if t = t.UTC(); t.Year() < yearMin || t.Year() > yearMax {
		return value.Undefined()
	}
	return value.String(t.Format(dateTimeForm))
}

func ticksOf(t time.Time) int64 { return t.Unix()*ticksPerSecond + int64(t.Nanosecond())/int64(tick) }

func fromTicks(n int64) time.Time {
	seconds, rest := floorDiv(n, ticksPerSecond)
	return time.Unix(seconds, rest*int64(tick)).UTC()
}

// floorDiv divides and rounds towards minus infinity; b is positive.
func floorDiv(a, b int64) (quotient, rest int64) {
	quotient, rest = a/b, a%b
	if rest < 0 {
		return quotient - 1, rest + b
	}
	return quotient, rest
}

// roundDiv divides and rounds halves away from zero; b is positive.
func roundDiv(a, b int64) int64 {
	quotient, rest := a/b, a%b
	switch {
	case rest >= (b+1)/2:
		return quotient + 1
	case -rest >= (b+1)/2:
		return quotient - 1
	}
	return quotient
}

// fromInteger returns a function of a number of units since 1970 and, optionally, a
// format of DateTimeFormat.
func fromInteger(name string, perSecond int64) function {
	return function{name: name, min: 1, max: 2, run: func(e *env, args []value.Value) value.Value {
		n, ok := args[0].Integer()
		if !ok {
			return value.Undefined()
		}
		seconds, rest := floorDiv(n, perSecond)
		v := dateTime(time.Unix(seconds, rest*int64(time.Second)/perSecond))
		if len(args) == 2 {
			return dateTimeFormat(e, []value.Value{v, args[1]})
		}
		return v
	}}
}

// partNames maps the spellings of a part to the one used here.
var partNames = map[string]string{
	"year": "year", "yyyy": "year", "yy": "year", "month": "month", "mm": "month", "m": "month",
	"day": "day", "dd": "day", "d": "day", "hour": "hour", "hh": "hour",
	"minute": "minute", "mi": "minute", "n": "minute", "second": "second", "ss": "second", "s": "second",
	"millisecond": "millisecond", "ms": "millisecond", "microsecond": "microsecond", "mcs": "microsecond",
	"nanosecond": "nanosecond", "ns": "nanosecond", "weekday": "weekday", "dw": "weekday",
}

// partName returns the part that an argument names, or "".
func partName(v value.Value) string { return partNames[strings.ToLower(v.Text())] }

// partUnits are the parts of fixed length.
var partUnits = map[string]time.Duration{
	"day": 24 * time.Hour, "hour": time.Hour, "minute": time.Minute, "second": time.Second,
	"millisecond": time.Millisecond, "microsecond": time.Microsecond, "nanosecond": time.Nanosecond,
}

func partOf(t time.Time, part string) value.Value {
	n := 0
	switch part {
	case "year":
		n = t.Year()
	case "month":
		n = int(t.Month())
	case "day":
		n = t.Day()
	case "weekday":
		n = int(t.Weekday()) // 0 for Sunday
	case "hour":
		n = t.Hour()
	case "minute":
		n = t.Minute()
	case "second":
		n = t.Second()
	case "millisecond":
		n = t.Nanosecond() / int(time.Millisecond)
	case "microsecond":
		n = t.Nanosecond() / int(time.Microsecond)
	case "nanosecond":
		n = t.Nanosecond()
	default:
		return value.Undefined()
	}
	return value.Int(int64(n))
}

// spanMax is the maximum number of units of a part to add. A larger number leaves the
// range of years from any start.
const spanMax = 10_000 * 366

func dateTimeAdd(_ *env, args []value.Value) value.Value {
	last := len(args) - 1
	part, n, whole := span(args[:last])
	t, ok := parseDateTime(args[last])
	if !ok || !whole {
		return value.Undefined()
	}
	return addPart(t, part, n)
}

// span returns a part of a date and a number of such parts, from one argument such as
// "1d" or from two.
func span(args []value.Value) (part string, n int64, ok bool) {
	if len(args) == 2 {
		n, ok = args[1].Integer()
		return partName(args[0]), n, ok
	}
	text := args[0].Text()
	digits := len(text) - len(strings.TrimLeft(text, "-0123456789"))
	n, err := strconv.ParseInt(text[:digits], 10, 64)
	return partName(value.String(text[digits:])), n, err == nil
}

// shifted returns NOW, or AGO if sign is -1: the current time plus or minus a time
// span.
func shifted(sign int64) runner {
	return func(e *env, args []value.Value) value.Value {
		if len(args) == 0 {
			return dateTime(e.now)
		}
		part, n, whole := span(args)
		if !whole || n == math.MinInt64 {
			return value.Undefined()
		}
		return addPart(e.now.UTC(), part, sign*n)
	}
}

// addPart adds n parts; undefined if the result is outside the range of years.
func addPart(t time.Time, part string, n int64) value.Value {
	switch part {
	case "year", "month":
		if n < -spanMax || n > spanMax {
			return value.Undefined()
		}
		if part == "year" {
			n *= 12
		}
		return dateTime(addMonths(t, int(n)))
	}
	unit := partUnits[part]
	switch {
	case unit == 0:
		return value.Undefined()
	case unit < tick:
		return dateTime(fromTicks(ticksOf(t) + roundDiv(n, int64(tick/unit))))
	}
	factor := int64(unit / tick)
	if n > math.MaxInt64/4/factor || n < -math.MaxInt64/4/factor {
		return value.Undefined()
	}
	return dateTime(fromTicks(ticksOf(t) + n*factor))
}

// addMonths keeps the day of the month, or uses the last day of a shorter month.
func addMonths(t time.Time, n int) time.Time {
	first := time.Date(t.Year(), t.Month()+time.Month(n), 1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(t.Day(), last)-1)
}

// dateTimeDiff counts the boundaries of the part between two times. As in the service, for
// parts of a second it counts the boundaries of seconds, and divides the difference of the
// fractions.
func dateTimeDiff(_ *env, args []value.Value) value.Value {
	part := partName(args[0])
	from, okFrom := parseDateTime(args[1])
	to, okTo := parseDateTime(args[2])
	if !okFrom || !okTo {
		return value.Undefined()
	}
	switch part {
	case "year":
		return value.Int(int64(to.Year() - from.Year()))
	case "month":
		return value.Int(int64((to.Year()-from.Year())*12 + int(to.Month()) - int(from.Month())))
	}
	unit := partUnits[part]
	switch {
	case unit == 0:
		return value.Undefined()
	case unit < tick:
		// More than 292 years of nanoseconds wrap around.
		return value.Int((ticksOf(to) - ticksOf(from)) * int64(tick/unit))
	case unit < time.Second:
		a, fromFraction := floorDiv(ticksOf(from), ticksPerSecond)
		b, toFraction := floorDiv(ticksOf(to), ticksPerSecond)
		return value.Int((b-a)*int64(time.Second/unit) + (toFraction-fromFraction)/int64(unit/tick))
	}
	a, _ := floorDiv(ticksOf(from), int64(unit/tick))
	b, _ := floorDiv(ticksOf(to), int64(unit/tick))
	return value.Int(b - a)
}

// dateTimeFromParts takes year, month, day, and optionally hour, minute, second and a
// fraction in ticks.
func dateTimeFromParts(_ *env, args []value.Value) value.Value {
	lowest := [7]int64{yearMin, 1, 1, 0, 0, 0, 0}
	highest := [7]int64{yearMax, 12, 31, 23, 59, 59, ticksPerSecond - 1}
	parts := lowest
	for i, arg := range args {
		n, ok := arg.Integer()
		if !ok || n < lowest[i] || n > highest[i] {
			return value.Undefined()
		}
		parts[i] = n
	}
	t := time.Date(int(parts[0]), time.Month(parts[1]), int(parts[2]), int(parts[3]), int(parts[4]), int(parts[5]), int(parts[6])*int(tick), time.UTC)
	if t.Day() != int(parts[2]) {
		return value.Undefined() // such as April 31
	}
	return dateTime(t)
}

// dateTimeBin rounds down to a multiple of a span, counted from an origin. If the time
// equals the origin, the result is the text of the origin. As in the service, a fraction
// of nanoseconds is dropped, an integer span wraps around at the end of 64 bits, and the
// multiple of any other one is computed in floating point.
func dateTimeBin(_ *env, args []value.Value) value.Value {
	t, ok := parseDateTime(args[0])
	unit := partUnits[partName(args[1])]
	size, origin := value.Int(1), time.Unix(0, 0).UTC()
	if len(args) > 2 {
		size = args[2]
	}
	if len(args) > 3 && ok {
		origin, ok = parseDateTime(args[3])
	}
	f := size.Float()
	if !ok || unit == 0 || !(f > 0) || math.IsInf(f, 1) {
		return value.Undefined()
	}
	passed := ticksOf(t) - ticksOf(origin)
	n, whole := int64Of(f), unit < tick
	if !size.IsDouble() {
		n, whole = size.Integer()
	}
	if unit >= tick {
		n *= int64(unit / tick) // the service wraps around, too
	} else if n /= int64(tick / unit); n <= 0 {
		return value.Undefined()
	}
	if passed == 0 {
		if len(args) > 3 {
			return args[3]
		}
		return dateTime(origin)
	}
	if whole {
		return binTicks(origin, passed, n)
	}
	span := f * (float64(unit) / float64(tick))
	if math.IsInf(span, 1) {
		return value.Undefined()
	}
	multiple := int64Of(float64(passed) / span)
	if passed < 0 && math.Mod(float64(passed), span) != 0 {
		multiple--
	}
	return dateTime(fromTicks(ticksOf(origin) + int64Of(float64(multiple)*span)))
}

// binTicks returns the last multiple of a span at or before passed, a number of ticks
// since the origin.
func binTicks(origin time.Time, passed, span int64) value.Value {
	if span == 0 || span == -1 {
		return value.Undefined() // the service returns an error
	}
	rest := passed % span
	if passed < 0 && rest != 0 {
		rest += span
	}
	return dateTime(fromTicks(ticksOf(origin) + passed - rest))
}
