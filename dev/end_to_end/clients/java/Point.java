import java.io.Serializable;
import java.util.List;
import java.util.Objects;

/** What an application may store: the library serializes it. */
final class Point implements Serializable {
    private static final long serialVersionUID = 1;

    private final int x;
    private final List<String> names;

    Point(int x, List<String> names) {
        this.x = x;
        this.names = names;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Point && ((Point) other).x == x && ((Point) other).names.equals(names);
    }

    @Override
    public int hashCode() {
        return Objects.hash(x, names);
    }
}
