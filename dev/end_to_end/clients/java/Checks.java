import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/** What the programs share: a list of checks, a count, and a report. */
final class Checks {
    /** What makes a check hold. */
    interface Body {
        void run() throws Exception;
    }

    private static final class Check {
        final String name;
        final Body body;

        Check(String name, Body body) {
            this.name = name;
            this.body = body;
        }
    }

    private final List<Check> checks = new ArrayList<>();

    /** Adds a check; its name is the sentence that fails. */
    void add(String name, Body body) {
        checks.add(new Check(name, body));
    }

    /** Runs each check after {@code first}, says what failed, and ends the program. */
    void run(Body first) {
        int failed = 0;
        for (Check check : checks) {
            try {
                first.run();
                check.body.run();
            } catch (Throwable error) {
                failed++;
                System.err.println("FAILED " + check.name + ": " + error);
                error.printStackTrace();
            }
        }
        System.out.printf("%d passed, %d failed%n", checks.size() - failed, failed);
        System.exit(failed == 0 ? 0 : 1);
    }

    static void expect(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError("found " + shown(found) + ", expected " + shown(wanted));
        }
    }

    static void fails(Class<? extends Throwable> error, Body body) {
        try {
            body.run();
        } catch (Throwable found) {
            for (Throwable cause = found; cause != null; cause = cause.getCause()) {
                if (error.isInstance(cause)) {
                    return;
                }
            }
            throw new AssertionError("found " + found + ", expected " + error.getName(), found);
        }
        throw new AssertionError("it did not fail, expected " + error.getName());
    }

    private static String shown(Object value) {
        String text = String.valueOf(value);
        return text.length() > 100 ? text.substring(0, 100) + "…" : text;
    }
}
