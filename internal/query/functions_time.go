package query

import (
	"math"
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

// timeFunctions process dates in ISO 8601 form, in UTC. The result is undefined for
// other texts and for years outside 1 to 9999.
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
		{name: "NOW", volatile: true, run: func(e *env, _ []value.Value) value.Value {
			return dateTime(e.now)
		}},
		now("GetCurrentTicks", ticks), now("GetCurrentTimestamp", millis),
		of("DateTimeToTicks", ticks), of("DateTimeToTimestamp", millis),
		part("YEAR", "year"), part("MONTH", "month"), part("DAY", "day"),
		fromInteger("TicksToDateTime", ticksPerSecond), fromInteger("TimestampToDateTime", 1000),
		{name: "DateTimeAdd", min: 3, max: 3, run: dateTimeAdd},
		{name: "AGO", min: 2, max: 2, volatile: true, run: ago},
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

// parseDateTime parses a date, optionally followed by a time, a fraction of up to
// seven digits, and a Z.
func parseDateTime(v value.Value) (time.Time, bool) {
	s := v.Text()
	if v.Kind() != value.KindString || !isDateTime(s) {
		return time.Time{}, false
	}
	s = strings.TrimSuffix(s, "Z")
	if len(s) == len(time.DateOnly) {
		t, err := time.Parse(time.DateOnly, s)
		return t, err == nil && t.Year() > 0
	}
	// Parse accepts a fraction after the seconds that the form does not have.
	t, err := time.Parse("2006-01-02T15:04:05", strings.Replace(s, " ", "T", 1))
	return t, err == nil && t.Year() > 0
}

// dateTime writes a time; undefined if the year is outside the form.
func dateTime(t time.Time) value.Value {
	if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 {
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

// fromInteger returns a function of a number of units since 1970.
func fromInteger(name string, perSecond int64) function {
	return function{name: name, min: 1, max: 1, run: func(_ *env, args []value.Value) value.Value {
		n, ok := args[0].Int64()
		if !ok {
			return value.Undefined()
		}
		seconds, rest := floorDiv(n, perSecond)
		return dateTime(time.Unix(seconds, rest*int64(time.Second)/perSecond))
	}}
}

// partNames maps the spellings of a part to the one used here.
var partNames = map[string]string{
	"year": "year", "yyyy": "year", "yy": "year", "month": "month", "mm": "month", "m": "month",
	"day": "day", "dd": "day", "d": "day", "hour": "hour", "hh": "hour",
	"minute": "minute", "mi": "minute", "n": "minute", "second": "second", "ss": "second", "s": "second",
	"millisecond": "millisecond", "ms": "millisecond", "microsecond": "microsecond", "mcs": "microsecond",
	"nanosecond": "nanosecond", "ns": "nanosecond",
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
	n, whole := args[1].Int64()
	t, ok := parseDateTime(args[2])
	if !ok || !whole {
		return value.Undefined()
	}
	return addPart(t, partName(args[0]), n)
}

// ago returns the current time minus a number of parts.
func ago(e *env, args []value.Value) value.Value {
	n, whole := args[1].Int64()
	if !whole || n == math.MinInt64 {
		return value.Undefined()
	}
	return addPart(e.now.UTC(), partName(args[0]), -n)
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
		return dateTime(fromTicks(ticksOf(t) + n/int64(tick/unit)))
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

// dateTimeDiff counts the boundaries of the part between two times.
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
		ticks, each := ticksOf(to)-ticksOf(from), int64(tick/unit)
		if ticks < -math.MaxInt64/each || ticks > math.MaxInt64/each {
			return value.Number(float64(ticks) * float64(each))
		}
		return value.Int(ticks * each)
	}
	a, _ := floorDiv(ticksOf(from), int64(unit/tick))
	b, _ := floorDiv(ticksOf(to), int64(unit/tick))
	return value.Int(b - a)
}

// dateTimeFromParts takes year, month, day, and optionally hour, minute, second and a
// fraction in ticks.
func dateTimeFromParts(_ *env, args []value.Value) value.Value {
	lowest := [7]int64{1, 1, 1, 0, 0, 0, 0}
	highest := [7]int64{9999, 12, 31, 23, 59, 59, ticksPerSecond - 1}
	parts := lowest
	for i, arg := range args {
		n, ok := arg.Int64()
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

// dateTimeBin rounds down to a multiple of a span, counted from an origin.
func dateTimeBin(_ *env, args []value.Value) value.Value {
	t, ok := parseDateTime(args[0])
	unit := partUnits[partName(args[1])]
	size, origin := int64(1), time.Unix(0, 0).UTC()
	if len(args) > 2 && ok {
		size, ok = args[2].Int64()
	}
	if len(args) > 3 && ok {
		origin, ok = parseDateTime(args[3])
		ok = ok && origin.Year() >= 1601
	}
	if !ok || unit == 0 || size <= 0 {
		return value.Undefined()
	}
	span := max(1, size*int64(unit)/int64(tick))
	if unit >= tick {
		if size > math.MaxInt64/int64(unit/tick) {
			return value.Undefined()
		}
		span = size * int64(unit/tick)
	}
	_, rest := floorDiv(ticksOf(t)-ticksOf(origin), span)
	return dateTime(fromTicks(ticksOf(t) - rest))
}
