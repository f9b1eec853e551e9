package headwater;

import com.amazonaws.AmazonServiceException;
import com.amazonaws.SdkBaseException;
import com.amazonaws.services.s3.AmazonS3;
import com.amazonaws.services.s3.model.ObjectMetadata;
import com.amazonaws.services.s3.model.PutObjectRequest;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Set;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.S3AUtils;

/**
 * Commits to Delta tables on S3 by conditional puts: of all writers, whatever process or library they are in, one wins.
 *
 * Delta's own log store for S3 looks whether a version is there and then puts it, which excludes the writers of one
 * process alone. Compiled by Janino when a session starts: no lambdas, no diamonds, no generic calls without a cast.
 */
public class ConditionalLogStore extends io.delta.storage.S3SingleDriverLogStore {
    private static final int BUSY = 50;
    private static final long WAIT_MS = 100;
    /** Buckets that were seen to refuse a second put. */
    private static final Set PROVEN = Collections.synchronizedSet(new HashSet());

    public ConditionalLogStore(Configuration configuration) {
        super(configuration);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration configuration) throws IOException {
        FileSystem files = path.getFileSystem(configuration);
        if (overwrite.booleanValue() || !(files instanceof S3AFileSystem)) {
            super.write(path, actions, overwrite, configuration);
            return;
        }
        S3AFileSystem store = (S3AFileSystem) files;
        Path whole = store.makeQualified(path);
        if (!PROVEN.contains(store.getUri().toString())) {
            prove(store, new Path(whole.getParent(), "_headwater_probe_" + UUID.randomUUID()));
            PROVEN.add(store.getUri().toString());
        }
        byte[] content = content(actions);
        if (!put(store, whole, content) && !holds(store, whole, content)) {
            throw new FileAlreadyExistsException(path.toString());
        }
    }

    /** A store that does not know the condition ignores it, and says nothing. */
    private static void prove(S3AFileSystem store, Path probe) throws IOException {
        try {
            if (!put(store, probe, new byte[0]) || put(store, probe, new byte[0])) {
                throw new IOException("the object store of " + probe.getParent() + " ignores If-None-Match, so that two"
                    + " writers could both win a commit; where one process alone writes, set spark.conf"
                    + " 'spark.delta.logStore.s3a.impl: io.delta.storage.S3SingleDriverLogStore'");
            }
        } finally {
            store.delete(probe, false);
        }
    }

    /** Whether the object was not there before. */
    private static boolean put(S3AFileSystem store, Path path, byte[] content) throws IOException {
        AmazonS3 client = store.getAmazonS3ClientForTesting("commit");
        for (int tried = 1; ; tried++) {
            ObjectMetadata metadata = store.newObjectMetadata((long) content.length);
            PutObjectRequest request = store.getRequestFactory()
                .newPutObjectRequest(store.pathToKey(path), metadata, (InputStream) new ByteArrayInputStream(content));
            request.putCustomRequestHeader("If-None-Match", "*");
            try {
                client.putObject(request);
                return true;
            } catch (SdkBaseException error) {
                int status = error instanceof AmazonServiceException
                    ? ((AmazonServiceException) error).getStatusCode() : 0;
                if (status == 412) {
                    return false;
                }
                if (status != 409 || tried == BUSY) { // 409: another put of it is under way
                    throw S3AUtils.translateException("commit", path.toString(), error);
                }
            }
            try {
                Thread.sleep(WAIT_MS);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                throw new java.io.InterruptedIOException("interrupted while another writer commits " + path);
            }
        }
    }

    /** Whether the object is ours: the answer to a first try may have been lost. */
    private static boolean holds(S3AFileSystem store, Path path, byte[] content) throws IOException {
        InputStream input = store.open(path);
        try {
            ByteArrayOutputStream found = new ByteArrayOutputStream();
            byte[] part = new byte[65536];
            for (int read = input.read(part); read >= 0; read = input.read(part)) {
                found.write(part, 0, read);
            }
            return Arrays.equals(found.toByteArray(), content);
        } finally {
            input.close();
        }
    }

    private static byte[] content(Iterator actions) {
        StringBuilder text = new StringBuilder();
        while (actions.hasNext()) {
            text.append((String) actions.next()).append("\n");
        }
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }
}
